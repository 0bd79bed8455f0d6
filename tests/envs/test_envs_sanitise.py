"""Whatever an agent says, the game hears one clean command or none."""

import time

import pytest

from turngrid.envs import registry
from turngrid.envs.text_env import MAX_ACTION_CHARS, NOT_ALLOWED, RawStep, TextEnv, sanitise
from turngrid.envs.types import EnvError, Observation

DIRTY = [
    "look\nopen door\nquit",
    "\n\n  look  \r\nquit",
    "a\\b\\nquit",
    "\\h",
    "\\",
    "x" * 10_000,
    "take " + "very " * 2_000 + "big box",
    "look\x00\x1b[2J\x07",
    "öffne die Tür — jetzt 🚪",
    "look\u2028quit\u0085quit",
    "quit",
    "QUIT",
    "q",
    "  restart ",
    "save",
    "restore\nyes",
    "undo",
    "script",
    "version",
    "print_state",
    "tw-trace-actions",
    "enable print state option",
    "look. quit",
    "look then quit",
    "look;quit",
    ". quit",
    "",
    "   \n\t\n",
    '"quit"',
]


@pytest.mark.parametrize("action", DIRTY)
def test_the_cleaned_action_is_one_short_line_of_printable_ascii(action):
    clean = sanitise(action)
    assert len(clean) <= MAX_ACTION_CHARS
    assert clean.isascii()
    assert clean.isprintable()
    assert "\\" not in clean


@pytest.mark.parametrize(
    ("action", "clean"),
    [
        ("open box", "open box"),
        ("  open \t box \nquit", "open box"),
        ("\n\nlook", "look"),
        ("take a\\b", "take a b"),
        ("", ""),
        ("\x00\x1f", ""),
        ("ünï", ""),  # not "n", which walks north
        ("“go east” — größe", "go east"),
    ],
)
def test_what_is_left_of_an_action(action, clean):
    assert sanitise(action) == clean


def test_a_very_long_first_line_is_cut_and_the_second_is_still_not_heard():
    assert sanitise("go " * 50_000 + "\nquit") == ("go " * 40).strip()


@pytest.mark.parametrize("action", DIRTY)
def test_a_dirty_action_desynchronises_nothing(custom_games, action):
    """After it, the game answers every step of the expert plan as it does without it, and is
    won."""
    task = custom_games[0]
    environment = registry.make_environment("textworld")
    clean, dirty = environment.env(), environment.env()
    clean.reset(task, 0)
    dirty.reset(task, 0)
    assert not dirty.step(action).terminated
    for command in task.expert_plan:
        expected, result = clean.step(command), dirty.step(command)
        assert result == expected
    assert result.won
    clean.close()
    dirty.close()


@pytest.mark.parametrize("action", ["quit", "SAVE game", "restart", "undo", "print_state", "", "\n", ". look"])
def test_commands_to_the_program_are_answered_without_asking_the_game(custom_games, action):
    env = registry.make_environment("textworld").env()
    env.reset(custom_games[0], 0)
    result = env.step(action)
    assert NOT_ALLOWED in result.observation.text
    assert result.observation.text.startswith("You are now in the ")
    assert (result.valid, result.score_delta, result.terminated) == (False, 0.0, False)
    env.close()


def test_one_turn_is_one_command(simple_games):
    """A chain of commands would let an agent take several turns in one."""
    task = simple_games["dense"]
    env = registry.make_environment("tw_simple").env()
    env.reset(task, 0)
    result = env.step(". ".join(task.expert_plan[:3]))
    assert result.observation.text == _first_step(task)
    assert result.score_delta == 1.0
    env.close()


def _first_step(task):
    env = registry.make_environment("tw_simple").env()
    env.reset(task, 0)
    text = env.step(task.expert_plan[0]).observation.text
    env.close()
    return text


def test_validity_is_what_the_parser_understood(custom_games):
    env = registry.make_environment("textworld").env()
    env.reset(custom_games[0], 0)
    assert env.step("look").valid
    assert not env.step("frobnicate").valid
    assert not env.step("open the pod bay doors").valid
    assert env.step("inventory").valid
    env.close()


def test_a_finished_game_takes_no_more_steps(custom_games):
    task = custom_games[0]
    env = registry.make_environment("textworld").env()
    with pytest.raises(EnvError, match="reset first"):
        env.step("look")
    env.reset(task, 0)
    for command in task.expert_plan:
        result = env.step(command)
    assert result.won
    with pytest.raises(EnvError, match="reset first"):
        env.step("look")
    env.reset(task, 0)
    assert not env.step("look").terminated
    env.close()


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


def test_a_subclass_has_names_of_its_own():
    env = Namesakes()
    env.reset(None, 0)
    assert env.step("").observation.text == NOT_ALLOWED
    assert env.step("0.5").score_delta == 0.5


@pytest.mark.parametrize("name", ["reset", "step", "finish", "refuses", "saved", "restore", "close"])
def test_a_subclass_cannot_replace_what_the_agent_calls(name):
    with pytest.raises(TypeError, match=f"Lamp.{name} .* another name"):
        type("Lamp", (Broken,), {name: lambda self: None})


@pytest.mark.parametrize("score", ["nan", "inf"])
def test_a_score_that_is_no_number_is_an_error_of_the_environment(score):
    env = Broken()
    env.reset(None, 0)
    assert env.step("0.5").score_delta == 0.5
    with pytest.raises(EnvError, match=f"Broken gave the score {score}"):
        env.step(score)
