"""Hydra's groups; see ``docs/configuration.md``. A module only so that the folder is packaged."""
