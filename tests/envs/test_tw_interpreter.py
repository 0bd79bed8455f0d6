"""Games in the interpreter alone read as TextWorld's own layers tell them; their state can be
saved."""

from turngrid.envs.textworld.env import TextWorldEnv

HABITS = ((), ("dance", "go east"), ("inventory", "take all", "look"))  # what else each of three episodes does


def commands(task, habit):
    """The expert's commands, with others before each."""
    return [command for expected in task.expert_plan for command in (*habit, expected)]


def texts(result):
    seen = getattr(result, "observation", result)
    return seen.text, seen.goal, *(getattr(result, name, None) for name in ("score_delta", "won", "over", "valid"))


def by_textworld(task, habit):
    env = TextWorldEnv(legal=True)
    told = [texts(env.reset(task, task.seed)), *(texts(env.step(command)) for command in commands(task, habit))]
    env.close()
    return told


def side_by_side(task):
    """Three episodes of one process, a step at a time."""
    envs = [TextWorldEnv() for _ in HABITS]
    told = [[texts(env.reset(task, task.seed))] for env in envs]
    left = [commands(task, habit) for habit in HABITS]
    while any(left):
        for env, own, plan in zip(envs, told, left, strict=True):
            if plan:
                own.append(texts(env.step(plan.pop(0))))
    return told


def test_episodes_side_by_side_read_as_textworld_tells_them(custom_games, simple_games):
    for task in (custom_games[0], simple_games["dense"]):
        assert side_by_side(task) == [by_textworld(task, habit) for habit in HABITS]


def test_a_saved_episode_goes_on_from_there(custom_games):
    task = custom_games[0]
    env = TextWorldEnv()
    env.reset(task, task.seed)
    first, *rest = commands(task, HABITS[1])
    env.step(first)
    saved, after = env.saved(), [texts(env.step(command)) for command in rest]
    for _ in range(2):
        env.restore(saved)
        assert [texts(env.step(command)) for command in rest] == after
