"""The model card: what the model is, how often it wins, how to ask it, how to serve it."""

from __future__ import annotations

import json

from experiments.evaluation.matrix import EvaluationResult
from experiments.export.found import Exported
from records.models.locate import ASSET, PACKAGED, RUN, local_folder
from records.stages import stage_name

CARD = """\
---
library_name: transformers
pipeline_tag: text-generation
{base_model}tags: [{tags}]
---

# {name}

{what}

## How often it wins

{figures}

## How it is asked

Observations are `user` messages, actions `assistant` messages; an episode is one conversation. `prompt_form.json` has the form of the
prompt, what the chat template is called with, and how many tokens an action may have.{begins}

## How to load it

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model, tokenizer = AutoModelForCausalLM.from_pretrained("{name}"), AutoTokenizer.from_pretrained("{name}")
```

```bash
vllm serve {name} --served-model-name {name}
```

## How it was trained

{training}
"""


def card(found: Exported, name: str) -> str:
    """Markdown with the front matter that hubs read."""
    config, base = found.config, str(found.config.model.path)
    on_hub = local_folder(base) is None and not base.startswith((ASSET, PACKAGED, RUN))
    first = json.dumps(found.first_messages, indent=2, ensure_ascii=False)
    begins = f" Its first game began with\n\n```json\n{first}\n```"
    return CARD.format(
        name=name,
        base_model=f"base_model: {base}\n" if on_hub else "",
        tags=", ".join(["turngrid", "reinforcement-learning", str(config.env.name), str(config.algo.name)]),
        what=_what(found, base if on_hub else str(config.model.name)),
        figures=_figures(found),
        begins=begins if found.first_messages else "",
        training="\n".join(f"- {line}" for line in _training(found)),
    )


def _what(found: Exported, base: str) -> str:
    config = found.config
    reward = f"reinforcement learning ({config.algo.name}, reward {config.turn_reward.name})"
    imitated = found.stage == "sft" or (found.run / "sft" / "model").exists()
    learned = [*["imitation (SFT)"] * imitated, *[reward] * (found.stage != "sft")]
    task = "several tasks" if config.env.get("tasks") else f"task `{config.env.task}`"
    return f"`{base}` after {' and '.join(learned)} in the text environment `{config.env.name}`, {task}."


def _figures(found: Exported) -> str:
    matrix = found.result.matrix if found.result and found.stage else ()
    if not matrix:
        return "Not measured: the run evaluated its last checkpoint only."
    head = "| model | environment | task | temperature | success, % [95 % interval] | games | seeds |\n|---|---|---|---|---|---|---|"
    told = [_row(item, found) for item in matrix if item.policy in ("base", found.stage)]
    return "\n".join(
        [head, *told, "", "Held-out games, which no training saw; intervals cover other games, not other seeds."]
    )


def _row(item: EvaluationResult, found: Exported) -> str:
    who = f"**{stage_name(item.policy)}**" if item.policy == found.stage else stage_name(item.policy)
    games = f"{item.games}" + (f" × {item.samples_per_game}" if item.samples_per_game > 1 else "")
    seeds = "none" if item.policy == "base" else f"1 (seed {found.config.seed})"
    cells = [who, item.env, f"`{item.task}`", f"{item.temperature:g}", item.interval.percent(), games, seeds]
    return f"| {' | '.join(cells)} |"


def _training(found: Exported) -> list[str]:
    config, attempt = found.config, found.attempt
    versions = attempt.versions if attempt else {}
    packages = ", ".join(f"{name} {versions[name]}" for name in ("turngrid", "verl", "torch") if versions.get(name))
    return [
        f"budget `{config.budget.name}`, {config.budget.units:,.0f} units; seed {config.seed}",
        f"run `{found.run.name}`",
        f"{packages or 'packages not recorded'}{f'; commit `{attempt.commit[:10]}`' if attempt and attempt.commit else ''}",
    ]
