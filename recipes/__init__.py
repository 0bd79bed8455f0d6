"""Recipes: one tested setting a file, ``NAME.yaml``, chosen by ``recipe=NAME``.

A recipe starts with ``# @package _global_``, may choose groups
(``defaults: [override /algo: ppo]``) and set any key, and names in its first comment the figure
that it should reach.
"""
