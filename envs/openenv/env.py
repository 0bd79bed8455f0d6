"""An environment behind an OpenEnv server, in text. The server runs, or starts in a container."""

import contextlib
import functools
import json
import os
import secrets
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from turngrid.envs.openenv.connection import Answer, Connection, Connections, Refused, proxied
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import Call, EnvError, InvalidAction, Observation, TaskRef

_PORT = 8000  # of the server in an OpenEnv image
_SCHEMA_S = 10.0
_START_S = 50.0  # seconds until a container's server answers; the first reset may take 60
_POLL_S = 0.25
_LONGEST = 100_000  # characters of an action


@functools.cache
def schema(url: str) -> dict[str, Any]:
    """Return the JSON schemas ``action`` and ``observation`` of a server.

    Raises:
        EnvError: it does not answer, or not with schemas.
    """
    import httpx

    try:
        reply = httpx.get(f"{url.rstrip('/')}/schema", timeout=_SCHEMA_S, trust_env=proxied(url))
        schemas = reply.raise_for_status().json()
        action, observation = (dict(schemas[name]["properties"]) for name in ("action", "observation"))
    except httpx.HTTPError as error:
        raise EnvError(f"the server at {url} does not answer: {error or type(error).__name__}") from error
    except (ValueError, LookupError, TypeError, httpx.InvalidURL) as error:
        raise EnvError(f"{url}/schema has no schemas of an OpenEnv server") from error
    shown = {key: value for key, value in observation.items() if key not in ("done", "reward", "metadata")}
    action.pop("metadata", None)
    return {
        "action": {**schemas["action"], "properties": action, "additionalProperties": False},
        "observation": {**schemas["observation"], "properties": shown},
    }


@functools.cache
def connections(url: str | None, image: str | None) -> Connections:
    """Return this process's sessions at the server ``url``, or in a new container of ``image``.

    Raises:
        EnvError: no container starts.
    """
    return Connections(url or _start(str(image)))


def _start(image: str) -> str:
    """Start a container and return the address of its server, at a port that docker chooses.

    A second process removes it when this one is gone, however it ended.
    """
    name = f"turngrid-{os.getpid()}-{secrets.token_hex(4)}"
    watch = ["sh", "-c", 'cat > /dev/null; docker rm --force "$0" > /dev/null 2>&1', name]
    subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
    try:
        _docker("run", "--detach", "--rm", "--name", name, "--publish", f"127.0.0.1::{_PORT}", image)
        address = _docker("port", name, str(_PORT)).splitlines()[0]
    except (OSError, subprocess.SubprocessError) as error:
        lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise EnvError(f"docker runs no container of env.image={image}: {lines[-1] if lines else error}") from error
    return _ready(f"http://{address}", image)


def _docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True, timeout=_START_S).stdout


def _ready(url: str, image: str) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with contextlib.suppress(EnvError):
            schema(url)
            return url
        time.sleep(_POLL_S)
    raise EnvError(f"the server of env.image={image} did not answer within {_START_S:g} s")


class OpenEnvEnv(TextEnv):
    """One episode at a time; the rewards of its steps add up to the score."""

    _connections: Connections | None = None

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        rules = accepted_json(task)
        if facts(self.open(rules), rules) != rules["opening"]:
            self.close_game()
            raise EnvError(f"{task.key}: the server makes another game of this seed")
        return self.observe_message("")

    def open(self, rules: Mapping[str, Any]) -> Answer:
        """Start an episode.

        Raises:
            EnvError: the server does not answer, or refuses the reset.
        """
        self._rules, self._return, self._sent = rules, 0.0, list[dict[str, Any]]()
        self._connections = connections(self._settings.url, self._settings.image)
        self._at = self._start(self._deadline())[1]
        return self._at

    def clean_action(self, action: str) -> str:
        return action.strip()[:_LONGEST]

    def step_game(self, command: str) -> RawStep:
        name = self._rules["action_field"]
        value = typed(command, schema(self._sessions.url)["action"]["properties"].get(name, {}), name)
        return self._act({**self._rules["action"], name: value})

    def call_game(self, call: Call) -> RawStep:
        return self._act(dict(call.arguments))

    def _act(self, action: dict[str, Any]) -> RawStep:
        deadline = self._deadline()
        connection = self._sessions.of(self) or self._again(deadline)
        try:
            self._at = self._ask(connection, action, deadline)
        except Refused as refused:
            if refused.code != "VALIDATION_ERROR":  # the environment may have done a part of it
                self._sent.append(action)
            raise InvalidAction(f"The environment did not accept that: {refused}") from refused
        self._sent.append(action)
        self._return += self._at.reward
        won = self._at.done and self._return >= self._rules["winning_return"]
        lost = self._at.done and not won
        return RawStep(self.observe_message(""), self._return, won=won, lost=lost, terminated=self._at.done)

    def _again(self, deadline: float) -> Connection:
        """Repeat the episode in another session; this one's was taken over by another episode."""
        connection, answer = self._start(deadline)
        for action in self._sent:
            with contextlib.suppress(Refused):
                answer = self._ask(connection, action, deadline)
        if facts(answer, self._rules) != facts(self._at, self._rules):
            self.close_game()
            raise EnvError("the episode took another course when it was played again in another session")
        return connection

    def _ask(self, connection: Connection, action: dict[str, Any], deadline: float) -> Answer:
        try:
            answer = connection.ask("step", action, deadline)
            facts(answer, self._rules)
        except EnvError:  # the session's state is unknown
            self.close_game()
            raise
        return answer

    def _start(self, deadline: float) -> tuple[Connection, Answer]:
        arguments = {**self._rules["reset"], "seed": self._rules["seed"]}
        try:
            return self._sessions.start(self, arguments, deadline)
        except Refused as refused:
            raise EnvError(f"the server at {self._sessions.url} refuses a reset: {refused}") from refused

    @property
    def _sessions(self) -> Connections:
        assert self._connections is not None
        return self._connections

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.timeout_s

    def observe_message(self, message: str) -> Observation:
        shown = facts(self._at, self._rules)
        lines = [message, *(words(shown[name]) for name in self._rules["observation_fields"])]
        return super().observe_message("\n".join(line for line in lines if line))

    def legal_actions(self) -> tuple[str, ...]:
        listed = facts(self._at, self._rules).get(self._rules["legal_field"])
        return tuple(map(words, listed)) if isinstance(listed, list) else ()

    def close_game(self) -> None:
        """Leave the session: a server may have room for no other."""
        if self._connections is not None:
            self._connections.drop(self)


def facts(answer: Answer, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an observation that the agent sees.

    Raises:
        EnvError: one is missing.
    """
    names = [*rules["observation_fields"], *([rules["legal_field"]] if rules["legal_field"] else [])]
    if lacking := [name for name in names if name not in answer.observation]:
        has = ", ".join(answer.observation)
        raise EnvError(f"an observation of the server has no field {lacking[0]}; it has {has}")
    return {name: answer.observation[name] for name in names}


def words(value: Any) -> str:
    """Return a field's value as text: a text itself, lines of a list of texts, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def typed(text: str, schema: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field that a text stands for.

    Raises:
        InvalidAction: it is none of the field's type.
    """
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    type_name = options[0].get("type", "string") if options else "string"
    if type_name == "string":
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    types: dict[str, Any] = {"integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    if not isinstance(value, types.get(type_name, object)) or (isinstance(value, bool) and type_name != "boolean"):
        raise InvalidAction(f"{name} must be of type {type_name}.")
    return value
