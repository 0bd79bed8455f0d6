"""Crafting games over recipes made here, with the commands of TextCraft."""
