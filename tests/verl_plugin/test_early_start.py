"""What Ray is started with."""

from __future__ import annotations

from omegaconf import OmegaConf

from verl_plugin.early_start import ray_settings

CONFIG = OmegaConf.create({"ray_kwargs": {"ray_init": {"num_cpus": 2, "address": None}}})


def test_an_interpreter_in_a_path_with_a_space_is_quoted() -> None:
    settings = ray_settings(CONFIG, "/home/a b/.venv/bin/python")
    assert settings == {"num_cpus": 2, "runtime_env": {"py_executable": "'/home/a b/.venv/bin/python'"}}


def test_else_ray_is_left_to_find_it() -> None:
    assert ray_settings(CONFIG, "/usr/bin/python3") == {"num_cpus": 2}


def test_a_users_runtime_environment_stays() -> None:
    config = OmegaConf.merge(CONFIG, {"ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": {"A": "1"}}}}})
    runtime = ray_settings(config, "/a b/python")["runtime_env"]
    assert runtime == {"env_vars": {"A": "1"}, "py_executable": "'/a b/python'"}
