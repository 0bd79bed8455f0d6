"""Whatever an agent says, the game hears one clean command or none."""

import time

import pytest
from made import played

from turngrid.envs import registry
from turngrid.envs.text_env import MAX_ACTION_CHARS, NOT_ALLOWED, RawStep, TextEnv, sanitise
from turngrid.envs.types import EnvError, Observation

DIRTY = [
    *("look\nopen door\nquit", "\n\n  look  \r\nquit", "a\\b\\nquit", "\\h", "\\", "x" * 10_000),
    *(
        "take " + "very " * 2_000 + "big box",
        "look\x00\x1b[2J\x07",
        "öffne die Tür — jetzt 🚪",
        "look\u2028quit\u0085quit",
    ),
    *("quit", "QUIT", "q", "  restart ", "save", "restore\nyes", "undo", "script", "version", "print_state"),
    *("tw-trace-actions", "enable print state option", "look. quit", "look then quit", "look;quit", ". quit"),
    *("", "   \n\t\n", '"quit"'),
]


CLEAN = {
    "open box": "open box",
    "  open \t box \nquit": "open box",
    "\n\nlook": "look",
    "take a\\b": "take a b",
    "\x00\x1f": "",
    "ünï": "",  # not "n", which walks north
    "“go east” — größe": "go east",
    "go " * 50_000 + "\nquit": ("go " * 40).strip(),
}


def test_the_cleaned_action_is_one_short_line_of_printable_ascii():
    for action in DIRTY:
        clean = sanitise(action)
        assert len(clean) <= MAX_ACTION_CHARS and clean.isascii() and clean.isprintable() and "\\" not in clean
    assert {action: sanitise(action) for action in CLEAN} == CLEAN


def test_a_dirty_action_desynchronises_nothing(custom_games):
    """After it, the game answers every step of the expert plan as it does without it, and is
    won. A finished game takes no more steps."""
    env = registry.make_environment("textworld").env()
    _, clean = played(env, custom_games[0])
    with pytest.raises(EnvError, match="reset first"):
        env.step("look")
    for action in DIRTY:
        _, [dirty, *results] = played(env, custom_games[0], (action, *custom_games[0].expert_plan))
        assert not dirty.terminated and results == clean


def test_what_is_a_command_and_what_is_understood(simple_games):
    """Commands to the program are answered without asking the game. A chain of commands would let
    an agent take several turns in one."""
    env, task = registry.make_environment("tw_simple").env(), simple_games["dense"]
    banned = ("quit", "SAVE game", "restart", "undo", "print_state", "", "\n", ". look")
    for result in played(env, task, banned)[1]:
        text = result.observation.text
        assert NOT_ALLOWED in text and text.startswith("You are now in the ")
        assert (result.valid, result.score_delta, result.terminated) == (False, 0.0, False)
    chain, *others = ". ".join(task.expert_plan[:3]), "look", "inventory", "frobnicate", "open the pod bay doors"
    _, [one, *results] = played(env, task, (chain, *others))
    assert (one.observation, one.score_delta) == (played(env, task, task.expert_plan[:1])[1][0].observation, 1.0)
    assert [result.valid for result in results] == [True, True, False, False]


@pytest.mark.parametrize("name", registry.ENVIRONMENTS)
def test_no_action_takes_long_to_clean(name):
    """100 kB of anything, in every environment: no pattern may go back over it again and again."""
    env = registry.make_environment(name).env()
    for unit in (" ", "\u2003", "\n", " \n", ".", " then", "[", "=> ", "```\n", "9", "a", "\\", "é "):
        for action in (unit * (100_000 // len(unit)), f"replace a: {unit * (100_000 // len(unit))}x"):
            start = time.thread_time()
            env.refuses(env.clean_action(action))
            assert time.thread_time() - start < 1, unit
    env.close()


class Broken(TextEnv):
    def reset_game(self, task, seed):
        return Observation("")

    def step_game(self, command):
        return RawStep(Observation(""), float(command))


class Namesakes(Broken):
    """Gives its own methods and attributes the names that TextEnv uses for itself."""

    def reset_game(self, task, seed):
        self._score = self._open = self._playing = self._game = None
        return self._observe()

    def _observe(self):
        return Observation("dark")

    _step = _reset = _finish = _outcome = _refused = _check_open = _observe


def test_a_subclass_has_names_of_its_own_and_a_score_is_a_number():
    env = Namesakes()
    for score in ("nan", "inf"):
        env.reset(None, 0)
        assert env.step("").observation.text == NOT_ALLOWED
        assert env.step("0.5").score_delta == 0.5
        with pytest.raises(EnvError, match=f"Namesakes gave the score {score}"):
            env.step(score)


@pytest.mark.parametrize("name", ["reset", "step", "finish", "refuses", "saved", "restore", "close"])
def test_a_subclass_cannot_replace_what_the_agent_calls(name):
    with pytest.raises(TypeError, match=f"Lamp.{name} .* another name"):
        type("Lamp", (Broken,), {name: lambda self: None})
