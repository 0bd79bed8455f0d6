"""Sweeps: one table or question of the study a file, ``NAME.yaml``, chosen by ``-m sweep=NAME``.

A file here is offered as ``sweep=NAME``; it sets keys (``# @package _global_``) that all runs of the sweep share, and
``hydra.sweeper.params`` for what varies.
"""
