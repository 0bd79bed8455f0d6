"""The command line: flags with Hydra's names, overrides, and the text of ``--help``.

The text is made from the files of ``conf/`` without composing a config.
"""

import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from turngrid.algorithms.registry import SLOTS
from turngrid.config.base import CONF, ROOT
from turngrid.config.errors import ConfigError
from turngrid.envs import extensions
from turngrid.records.process.exit_codes import Parser, Refusal
from turngrid.tasks.schema import NODES

SWITCHES = ("--help -h", "--resolve", "--multirun -m", "--shell-completion -sc")
VALUES = ("--package -p", "--config-dir -cd")
USAGE = "KEY=VALUE without dashes for settings; --help lists the flags"
ALONE = ("multirun", "cfg", "shell_completion")  # one of these at a time


def parsed(arguments: Sequence[str]) -> Namespace:
    """Parse flags and ``overrides``.

    Raises:
        Refusal: a flag is unknown, lacks its value, or has no effect here.
    """
    for word in arguments:
        if re.match(r"-(?!p=|cd=)\w[^=]*=", word):  # argparse would read -model.path=x as -m
            raise Refusal(f"unrecognized arguments: {word}; use {USAGE}")
    parser = Parser(usage=USAGE, add_help=False)
    for flag in SWITCHES:
        parser.add_argument(*flag.split(), action="store_true")
    for flag in VALUES:
        parser.add_argument(*flag.split())
    parser.add_argument("--cfg", "-c", choices=("job",))
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_intermixed_args(list(arguments))
    _refuse_idle(args)
    return args


def _refuse_idle(args: Namespace) -> None:
    several = [name for name in ALONE if getattr(args, name)]
    if len(several) > 1:
        raise ConfigError(f"one of {' and '.join(f'--{name}' for name in several)} at a time".replace("_", "-"))
    if args.config_dir is not None and not (args.config_dir and Path(args.config_dir).expanduser().is_dir()):
        raise ConfigError(f"--config-dir {args.config_dir}: no such folder")
    if (args.package or args.resolve) and not args.cfg:
        raise ConfigError(f"--{'package' if args.package else 'resolve'} is for what --cfg job shows: add it")


HEAD = """turngrid: multi-turn agentic RL experiments on verl

    python -m train [KEY=VALUE ...]        from the repository root
    turngrid-train [KEY=VALUE ...]         from any folder

Runs demonstrations, SFT, RL and evaluation, and prints success on held-out games. The same command again goes on
where it stopped; a finished run prints its table again.

Groups (NAME=OPTION; * is the default):
"""
TAIL = """
Keys of our own, beside all of verl's ppo_trainer keys (actor_rollout_ref.rollout.n=8):
  seed=0            SFT order, task order, sampling, critic initialisation
  fresh=true        put an earlier run of the same name aside and start anew
  extend=runs/NAME  that run with more steps: extend=runs/NAME budget.rl_steps=40
  output_dir=runs   where run folders go
  estimate=true     only print the run's games, episodes, disk, memory and, if recorded, time;
                    estimate_gpu=H100x8: memory on such GPUs
  {nodes}

Flags:
  -m, --multirun    several values, several runs: -m algo=ppo,grpo,rloo seed=0,1,2
                    -m sweep=NAME scale=laptop: a table of the study; dry_run=true only lists its runs,
                    only.AXIS=VALUE,VALUE takes a part of them
  --cfg job         show the composed config instead of running (--resolve, --package NODE)
  --config-dir DIR  a folder with your own options

docs/configuration.md explains how the groups stack."""


def help_text() -> str:
    """Return the help text; this reads a few small files and imports nothing heavy."""
    defaults = _defaults()
    lines = [
        _line(group, defaults.get(group))
        for group in ("env", "reward", "prompt", "algo", *SLOTS, "budget", "curriculum", "model", "scale")
    ]
    lines += [_line(group, defaults.get(group)) for group in ("cluster", "rollout", "correction", "tracking", "health")]
    for group, folder in (("recipe", "recipes"), ("sweep", "sweeps")):
        shipped = sorted(path.stem for path in (ROOT / folder).glob("*.yaml"))
        lines.append(f"  {group + '=':<11}{' | '.join(shipped)}")
    return HEAD + "\n".join(lines) + "\n" + TAIL.format(nodes=", ".join(f"{node}.*" for node in NODES))


def _defaults() -> dict[str, str]:
    """Return the default option of each group, with those that the default model overrides."""
    import yaml

    entries = yaml.safe_load((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    chosen = {key: value for entry in entries if isinstance(entry, dict) for key, value in entry.items()}
    model = yaml.safe_load((CONF / "model" / f"{chosen['model']}.yaml").read_text(encoding="utf-8"))
    overrides = {key: value for entry in model.get("defaults", []) for key, value in entry.items()}
    return chosen | {key.removeprefix("override /"): value for key, value in overrides.items()}


def _line(group: str, default: str | None) -> str:
    options = sorted({*(path.stem for path in (CONF / group).glob("*.yaml")), *extensions.options().get(group, ())})
    return f"  {group + '=':<11}" + " | ".join(f"{name}*" if name == default else name for name in options)
