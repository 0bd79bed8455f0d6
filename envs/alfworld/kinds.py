"""ALFWorld's six task types, and the named tasks that mix them."""

from collections.abc import Sequence

from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

# In alfworld's numbering, 1 to 6.
TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
# The study mixes 1, 4 and 6 types without naming them; these are our choice.
MIXTURES: dict[str, tuple[str, ...]] = {"one_type": TYPES[:1], "four_types": TYPES[:4], "all_types": TYPES}
# The treatment that a type asks for, and the receptacle that does it.
TOOLS = {TYPES[2]: ("clean", "SinkBasin"), TYPES[3]: ("heat", "Microwave"), TYPES[4]: ("cool", "Fridge")}
LIGHT, TWO = TYPES[1], TYPES[5]


def task_types(task: str, only: Sequence[str] = ()) -> list[str]:
    """Return the types that a task draws from, in alfworld's order; ``only`` keeps those named.

    Raises:
        TaskError: an unknown task or type, or a filter that leaves nothing.
    """
    if unknown := next((name for name in only if name not in TYPES), ""):
        raise TaskError(f"env.task_types={unknown} is unknown; use {nearest(unknown, TYPES)}")
    left = [name for name in MIXTURES.get(task, (task,)) if not only or name in only]
    if not left:
        raise TaskError(f"env.task_types={list(only)} leaves no type of {task}; use env.task=all_types")
    return left


def type_of_seed(types: Sequence[str], seed: int) -> str:
    """Return a seed's type; consecutive seeds take the types in turn."""
    return types[seed % len(types)]
