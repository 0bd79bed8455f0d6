"""Imported first by a benchmark that starts a Ray of its own on a CPU: what torch, verl, Ray and
the queue read as they load."""

import os

os.environ |= {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "turngrid.verl_plugin",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TRANSFER_QUEUE_ENABLE": "1",
}
