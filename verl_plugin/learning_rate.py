"""The learning rate of a resumed run is its config's, not the one that its checkpoint has."""

from collections.abc import Callable
from typing import Any


def of_config(usual: Callable[..., None], manager: Any, *args: Any, **kwargs: Any) -> None:
    """Scale the restored rates if the config has another one than the checkpoint.

    torch restores them with the scheduler and the optimizer.

    Until verl leaves the learning rate of a resumed run to its config.
    """
    scheduler = manager.lr_scheduler
    wanted = list(scheduler.base_lrs) if scheduler else []
    usual(manager, *args, **kwargs)
    restored = list(scheduler.base_lrs) if scheduler else []
    if wanted == restored:
        return
    groups, last = manager.optimizer.param_groups, scheduler.get_last_lr()
    for group, rate, base, now in zip(groups, wanted, restored, last, strict=True):
        group["initial_lr"] = rate
        group["lr"] = now * (rate / base) if base else rate
    scheduler.base_lrs = wanted
