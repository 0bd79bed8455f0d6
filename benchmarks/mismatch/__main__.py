"""Measure which correction= helps if the policy that samples differs from the one that is trained.

    python -m benchmarks.mismatch
    python -m benchmarks.mismatch samplers=[stale,bf16] turns=24
    python -m benchmarks.mismatch corrections=[icepop,icepop:rollout_is_threshold=0.8_1.25]

samplers=     what differs, by names or beginnings of names (default: all):
              healthy, bf16, fp8, int, stale, top_p, hidden_top_p, noise
turns=        [4,12,24]: turns of an episode
corrections=  options of correction= (default: all), with settings as :KEY=VALUE: rollout_is,
              rollout_rs and their thresholds; none is always measured, and the others compared
              with it
seeds=16      number of policies; intervals are over them
batches=16    steps of each policy whose gradients are sampled
steps=20      updates of a training
results=      file of results (output_dir/mismatch/results.jsonl); its cells are not measured again
KEY=VALUE     output_dir=, or bounds of the loss, as actor_rollout_ref.actor.clip_ratio_low=

The tables are written beside the file. docs/mismatch.md explains the figures."""

import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from turngrid.config.base import CONF
from turngrid.config.checks.estimators import bad_correction
from turngrid.config.compose import Composer, composer
from turngrid.envs.utils.bar import ticking_bar
from turngrid.envs.utils.files import write_whole
from turngrid.envs.utils.names import meant
from turngrid.experiments.tables import listed
from turngrid.records.files.json_lines import append_line
from turngrid.records.process.exit_codes import Refusal, command, own_words, say
from turngrid.tasks.run import Run

NODE, CLIP = "algorithm.rollout_correction", "actor_rollout_ref.actor.clip_ratio_"
CHOSEN = sorted(file.stem for file in (CONF / "correction").glob("*.yaml") if file.stem != "auto")


@dataclass
class Options:
    samplers: str = ""
    turns: str = "[4,12,24]"
    corrections: str = ""
    seeds: int = 16
    batches: int = 16
    steps: int = 20
    results: str = ""


@command(__doc__)
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options)
    if words:
        raise Refusal(f"{words[0]}: this command takes KEY=VALUE only; use samplers={words[0]}")
    _refuse(options, overrides)
    names, labels = chosen(listed(options.samplers)), listed(options.corrections) or CHOSEN
    with composer() as compose:
        configs = {label: config_of(label, overrides, compose) for label in dict.fromkeys(["none", *labels])}
    settings = " ".join(sorted(word for word in overrides if word.startswith(CLIP)))
    print(_measured(options, names, configs, settings), flush=True)
    return 0


def config_of(label: str, overrides: Sequence[str], compose: Composer) -> DictConfig:
    """Compose a correction's config: ``NAME:KEY=VALUE:...``.

    Raises:
        Refusal: there is no such option, the game does not read it, or training would refuse it.
    """
    from benchmarks.mismatch.corrected import KEYS

    name, *settings = label.split(":")
    if name not in CHOSEN:
        raise Refusal(f"corrections={name}: no option of correction=; use one of {', '.join(CHOSEN)}")
    if unread := next((item for item in settings if item.partition("=")[0] not in KEYS), None):
        raise Refusal(f"corrections={label}: this game does not read {unread}; use one of {', '.join(KEYS)}")
    own = [f"correction={name}", *(f"{NODE}.{item}" for item in settings)]
    if name == "none":  # with bypass_mode, which a CPU's default is, it would be sampler_clip
        own.append(f"{NODE}.bypass_mode=false")
    config = compose([*overrides, *own])
    for problem in bad_correction(Run(config)):
        raise Refusal(f"corrections={label}: {problem}")
    return config


def _refuse(options: Options, overrides: Sequence[str]) -> None:
    if unread := next((word for word in overrides if not word.startswith((CLIP, "output_dir="))), None):
        raise Refusal(f"{unread}: the loss of this game does not read it; use {CLIP}low=, {CLIP}high= or {CLIP}c=")
    if wrong := next((turns for turns in listed(options.turns) if not re.fullmatch(r"[1-9]\d{0,2}", turns)), None):
        raise Refusal(f"turns={wrong}: it is a number of turns; use turns=1 to turns=999")
    for key, value in (("seeds", options.seeds), ("batches", options.batches)):
        if value < 2:
            raise Refusal(f"{key}={value}: noise is estimated from 2 or more; use {key}=2")


def chosen(words: Sequence[str]) -> list[str]:
    """Return the samplers whose names are the words, or begin with them."""
    from benchmarks.mismatch.samplers import SAMPLERS

    for word in words:
        if not any(name.startswith(word) for name in SAMPLERS):
            raise Refusal(f"samplers={word}: no such difference{meant(word, SAMPLERS, 'samplers=')}")
    return [name for name in SAMPLERS if not words or any(map(name.startswith, words))]


def _measured(options: Options, names: Sequence[str], configs: Mapping[str, DictConfig], settings: str) -> str:
    """Measure what the file has not, a cell at a time, and return the tables."""
    import torch

    from benchmarks.mismatch.corrected import Correction
    from benchmarks.mismatch.results import FILE, TABLES, Key, advice, cells, figures, line, read, whole
    from benchmarks.mismatch.study import Size, measured

    torch.set_num_threads(1)  # tensors are small
    size = Size(options.seeds, options.batches, options.steps)
    output = Path(configs["none"].output_dir).expanduser() / "mismatch" / FILE
    file = Path(options.results) if options.results else output
    say(f"results {file}")
    corrections = {label: Correction(config) for label, config in configs.items()}
    asked = list(itertools.product(map(int, listed(options.turns)), names))
    known = read(file)
    with ticking_bar(total=len(asked), desc="measure", unit="cell") as bar:
        for turns, name in asked:
            keys = {label: Key(name, turns, label, size, settings) for label in corrections}
            new = {label: corrections[label] for label, key in keys.items() if key not in known}
            if new:
                nats, found = measured(name, turns, size, new, corrections["none"])
                for label, cell in found.items():
                    append_line(file, line(keys[label], figures(nats, cell)))
            bar.update()
    found_cells = cells(read(file), size, settings)
    text = f"{advice(found_cells)}\n{whole(found_cells)}"
    write_whole(file.with_name(TABLES), text)
    return f"{advice(found_cells)}\nall figures: {file.with_name(TABLES)}"


if __name__ == "__main__":
    sys.exit(main())
