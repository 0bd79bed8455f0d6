"""Sweeps: one table or question of the study a file, ``NAME.yaml``, launched by ``-m sweep=NAME``
(``docs/sweeps.md``)."""
