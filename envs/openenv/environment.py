"""Any environment behind an OpenEnv server: ``env=openenv`` (docs/openenv.md)."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected, facts_hash
from turngrid.envs.functions import Function
from turngrid.envs.openenv.env import OpenEnvEnv, facts, schema
from turngrid.envs.types import EnvError, TaskError
from turngrid.envs.utils.names import meant

_NAME_FIELDS = ("action_field", "action", "observation_fields", "legal_field")
_RULES = ("reset", *_NAME_FIELDS, "winning_return")


@dataclass(frozen=True)
class OpenEnvSettings:
    url: str | None
    image: str | None
    action_field: str | None
    action: dict[str, Any] | None
    observation_fields: list[str] | None
    legal_field: str | None
    reset: dict[str, Any] | None
    goal: str
    winning_return: float = field(metadata={"range": (-1e12, 1e12)})
    distinct: bool
    timeout_s: float = field(metadata={"range": (0.1, 86400)})


class OpenEnv(Environment):
    """The task is any name that the user gives the environment; a seed is that of its reset."""

    name = "openenv"
    modules = ("websockets",)
    Settings = OpenEnvSettings
    Env = OpenEnvEnv

    @property
    def prompt(self) -> PromptStyle:  # type: ignore[override]
        """Calls have all fields of an action; a container's are unknown before it runs."""
        url = self.settings.url
        act = (Function("act", "do this in the environment", schema(url)["action"]),) if url else ()
        return PromptStyle("You act in an environment.", "Answer with one action and nothing else.", act)

    @property
    def rewards(self) -> tuple[str, ...]:  # type: ignore[override]
        """Dense divides the return by the winning one, so that must be positive."""
        return ("sparse", "dense") if self.settings.winning_return > 0 else ("sparse",)

    @property
    def lists_actions(self) -> bool:  # type: ignore[override]
        return self.settings.legal_field is not None

    @property
    def more_games(self) -> str:  # type: ignore[override]
        return "env.distinct=false counts every seed as a game" if self.settings.distinct else ""

    @property
    def longest_step_s(self) -> float:  # type: ignore[override]
        return float(self.settings.timeout_s)

    def parse_task(self, task: str) -> dict[str, Any]:
        chosen = self.settings
        self.check_modules()
        if chosen.url is None and chosen.image is None:
            raise TaskError("env.url=null: env=openenv needs a server, or env.image; use env.url=http://HOST:PORT")
        if chosen.url is not None and chosen.image is not None:
            raise TaskError(f"env.image={chosen.image}: env.url names a server; use env.image=null or env.url=null")
        if chosen.image is not None and shutil.which("docker") is None:
            raise TaskError(
                f"env.image={chosen.image}: there is no command docker; start a server and use env.url=http://HOST:PORT"
            )
        self._check_fields()
        rules = {key: getattr(chosen, key) for key in _RULES}
        rules |= {"action": chosen.action or {}, "reset": chosen.reset or {}}
        whose = {"task": task, "server": chosen.image or facts_hash(schema(chosen.url)), "goal": chosen.goal}
        return json.loads(json.dumps({**rules, **whose, "distinct": chosen.distinct}))

    def _check_fields(self) -> None:
        fields = self._fields()
        for key in _NAME_FIELDS:
            of = "action" if key.startswith("action") else "observation"
            known, given = fields.get(of, []), getattr(self.settings, key)
            if not given and key in ("action_field", "observation_fields"):
                choices = f", of {', '.join(known)}" if known else ""
                raise TaskError(f"env.{key} must be given; use env.{key}=NAME{choices}")
            names = [given] if isinstance(given, str) else given or ()
            if lacking := [name for name in names if fields and name not in known]:
                near = meant(lacking[0], known, f"env.{key}=") or f"; use one of {', '.join(known)}"
                url = self.settings.url
                raise TaskError(f"env.{key}={lacking[0]}: the {of}s of env.url={url} have no such field{near}")

    def _fields(self) -> dict[str, list[str]]:
        """Return the fields of the server's actions and observations; {} for an image."""
        url = self.settings.url
        if url is None:
            return {}
        if not url.startswith(("http://", "https://")):
            raise TaskError(f"env.url={url} must be an address such as http://localhost:8000")
        try:
            return {of: list(schema(url)[of]["properties"]) for of in ("action", "observation")}
        except EnvError as error:
            raise TaskError(f"env.url={url}: {error}; start the server, or use the address of another one") from error

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        rules = {**{key: params[key] for key in _RULES}, "seed": seed}
        env = OpenEnvEnv(self.settings)
        try:
            first = env.open(rules)
            opening = facts(first, rules)
            if first.done:
                raise Rejected("the episode is over at its start")
            if facts(env.open(rules), rules) != opening:
                raise Rejected("two resets with one seed differ: the environment must follow reset(seed=...)")
        finally:
            env.close()
        fingerprint = facts_hash([rules["reset"], opening, None if params["distinct"] else seed])
        about = {"goal": params["goal"], "max_score": max(float(params["winning_return"]), 0.0)}
        return GameRecord.written(
            folder, {**rules, "opening": opening}, sort_keys=True, fingerprint=fingerprint, **about
        )
