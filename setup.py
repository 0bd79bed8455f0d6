"""Every folder of the repository is imported as ``turngrid.FOLDER``."""

from setuptools import find_namespace_packages, setup

FOLDERS = (
    "algorithms",
    "assets",
    "conf",
    "config",
    "envs",
    "experiments",
    "recipes",
    "records",
    "rewards",
    "rollouts",
    "sweeps",
    "tasks",
    "train",
    "verl_plugin",
)
INSIDE = find_namespace_packages(include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")])

setup(packages=["turngrid", *(f"turngrid.{name}" for name in INSIDE)], package_dir={"turngrid": "."})
