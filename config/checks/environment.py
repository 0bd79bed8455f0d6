"""Checks of the nodes ``env``, ``turn_reward``, ``eval`` and ``prompt``."""

from collections.abc import Iterator

from turngrid.config.finalise import explained
from turngrid.config.prompts import form_of, several_rows
from turngrid.config.values.values import shown
from turngrid.envs.extensions import shipped
from turngrid.envs.registry import ENVIRONMENTS, environment_class, spec
from turngrid.envs.types import TaskError
from turngrid.rewards.registry import REWARDS, reward
from turngrid.rollouts.policy import RANDOM, START
from turngrid.rollouts.prompt_forms.registry import PLAIN
from turngrid.tasks.evaluation_sets import own, tested, through_servers, turns_of
from turngrid.tasks.mixture import task_weights
from turngrid.tasks.run import Run

THINKING = "use prompt=think_action or prompt=react"
LIMITING = "prompt.max_actions"


def unknown_task(run: Run) -> Iterator[str]:
    try:
        for task in task_weights(run.config.env):
            run.environment.parse_task(task)
    except TaskError as error:
        yield explained(error, run.config.env)


def reward_not_offered(run: Run) -> Iterator[str]:
    offered, name, env = run.environment.rewards, run.config.turn_reward.name, run.config.env.name
    if name in REWARDS and name not in offered:  # a user's own reward may read anything
        rewards = {other: environment_class(spec(other)).rewards for other in ENVIRONMENTS}  # some follow from settings
        owners = [other for other, own in rewards.items() if isinstance(own, tuple) and name in own]
        elsewhere = f"env={owners[0]} or " if len(owners) == 1 else ""  # algo= may have chosen the reward
        yield f"reward={name}: env={env} does not offer it; use {elsewhere}reward={' or '.join(offered)}"


def bad_reward_settings(run: Run) -> Iterator[str]:
    node = run.config.turn_reward
    if problem := getattr(reward(node.name, node), "problem", str)():
        yield problem


def step_deadline(run: Run) -> Iterator[str]:
    longest, deadline = run.environment.longest_step_s, run.config.env.step_deadline_s
    if deadline <= longest:
        because = ", by env.tests_deadline_s" if "tests_deadline_s" in run.config.env else ""
        yield f"env.step_deadline_s={deadline:g}: a step may take {longest:g} s{because}; use a higher one"


def bad_window(run: Run) -> Iterator[str]:
    turns, keep = run.config.env.window_turns, run.config.env.window_keep
    if keep is not None and turns is None:
        yield f"env.window_keep={keep}: there is no window; use env.window_turns too"
    elif keep is not None and keep >= turns:
        yield f"env.window_keep={keep}: it must be below env.window_turns={turns}; use env.window_keep={turns - 1}"


def bad_evaluation(run: Run) -> Iterator[str]:
    node = run.config.eval
    if not node.temperatures:
        yield "eval.temperatures=[]: nothing would be evaluated; use eval.temperatures=[0.4]"
    for key in ("tasks", "temperatures"):
        values = list(node[key])
        if twice := [value for value in values if values.count(value) > 1]:
            yield f"eval.{key}={values}: {twice[0]} stands there twice; use each once"
    for env, task in tested(run):
        if (env, task) != own(run):
            try:
                run.of_environment(env).environment.parse_task(task)
            except TaskError as error:
                yield f"eval.tasks: {error}; a task of another environment is written ENV/TASK"
            except (ImportError, AttributeError, ValueError) as error:
                yield f"eval.tasks: {env} is no environment: {error} (its form is module:Class)"


def bad_opponents(run: Run) -> Iterator[str]:
    asked, given = run.opponents, f"eval.opponents=[{','.join(run.opponents)}]"
    for env in dict.fromkeys(name for name, _ in tested(run)):
        known = run.of_environment(env).environment.opponents
        if unknown := next((name for name in asked if known and name not in (*known, START)), None):
            reason = f"{unknown} is none of {', '.join((*known, START))}"
            yield f"{given}: {reason}; use eval.opponents=[{known[0]}]"
    if asked[0] == START:
        reason = "the first one is that of training and validation too, which have no second model"
        yield f"{given}: {reason}; use eval.opponents=[{RANDOM},{START}]"
    if START in asked and through_servers(run):
        yield f"{given}: rollout servers have one model; use eval.servers=false"


def too_few_turns(run: Run) -> Iterator[str]:
    """Warn of the first task whose expert plan is longer than ``max_turns``."""
    env, a_turn = run.config.env, run.prompt.actions_a_turn
    trained = [(env.name, task, int(env.max_turns)) for task in env.get("tasks") or [env.task]]
    others = [names for names in tested(run) if names != own(run)]
    for name, task, turns in [*trained, *((*names, turns_of(run, *names)) for names in others)]:
        environment = run.of_environment(name).environment
        plan = environment.optimal_turns(environment.parse_task(task))
        best = None if plan is None else -(-plan // a_turn)
        if best is not None and turns < best:
            yield f"{task}: won in {best} turns at best and an episode has {turns}, so expect no wins; use more turns"
            return


def bad_prompt(run: Run) -> Iterator[str]:
    prompt, env, thinks = run.config.prompt, run.config.env, form_of(run.config).thinks
    for name, value in {"train_thoughts": False, "thinking": True, "history_thoughts": True}.items():
        if prompt[name] == value and not thinks:
            yield f"prompt.{name}={shown(value)}: the answers of prompt={prompt.name} have no thoughts; {THINKING}"
    for name in ("history_chars", "history_thoughts", "history_steps"):
        if prompt[name] and not prompt.history and (prompt.history is None or name != "history_steps"):
            windows = "" if env.window_turns is None else " env.window_turns=null"
            yield f"prompt.{name}={shown(prompt[name])}: prompts repeat no earlier turn; use prompt.history=2{windows}"
    if prompt.history is not None and env.window_turns is not None:
        both = f"prompt.history={prompt.history} and env.window_turns={env.window_turns}"
        yield f"{both}: both say what is seen of an episode; use prompt.history=null or env.window_turns=null"


def bad_actions(run: Run) -> Iterator[str]:
    prompt, form, most = run.config.prompt, run.prompt, run.config.env.max_actions
    if not prompt.action_sep.strip():
        yield f'prompt.action_sep="{prompt.action_sep}": it separates actions; use prompt.action_sep="||"'
    if form.functions and prompt.max_actions > 1:
        yield f"{LIMITING}={prompt.max_actions}: prompt={prompt.name} has one action an answer; use {LIMITING}=1"
    if form.calls and prompt.demo_max_actions is not None:
        reason = f"a demonstration of prompt={prompt.name} has the calls of the expert plan"
        yield f"prompt.demo_max_actions={prompt.demo_max_actions}: {reason}; use prompt.demo_max_actions=null"
    if not form.calls and (prompt.demo_max_actions or 0) > prompt.max_actions:
        given, limit = prompt.demo_max_actions, f"{LIMITING}={prompt.max_actions}"
        yield f"prompt.demo_max_actions={given}: it must be at most {limit}; use {LIMITING}={given}"
    if most is not None and form.calls:
        yield f"env.max_actions={most}: the calls of an answer run as one step; use env.max_turns and {LIMITING}"
    elif most is not None and prompt.max_actions == 1:
        yield f"env.max_actions={most}: with {LIMITING}=1 a turn is an action; use env.max_turns={most}"


def not_in_this_environment(run: Run) -> Iterator[str]:
    yield from not_where_evaluated(run, str(run.config.env.name))


def not_where_evaluated(run: Run, *also: str) -> Iterator[str]:
    """Check the environments of the evaluation sets and those in ``also``."""
    prompt, form = run.config.prompt, form_of(run.config)
    for name in dict.fromkeys([*also, *(env for env, _ in tested(run))]):
        environment = run.of_environment(name).environment
        if prompt.admissible and not environment.lists_actions:
            reason = f"env={name} cannot list the actions that it accepts"
            yield f"prompt.admissible=true: {reason}; use prompt.admissible=false"
        if form.calls and not environment.prompt.functions:
            yield f"prompt={prompt.name}: the actions of env={name} are phrases, not functions; {THINKING}"
        names = {function.name for function in environment.prompt.functions}
        if lacking := [wanted for wanted in form.functions if wanted not in names]:
            yield f"prompt={prompt.name}: env={name} has no function {' and '.join(lacking)}; {THINKING}"


def little_room(run: Run) -> Iterator[str]:
    """Warn if thoughts may use up the tokens of an answer, or of an episode that has one row."""
    env, room, form = run.config.env, run.config.data.max_response_length, run.prompt
    bare = shipped("env", env.name).get("max_action_tokens", 0)
    if run.config.prompt.name != PLAIN and env.max_action_tokens < bare:
        key, reason = "env.max_action_tokens", f"env={env.name} has {bare} for an action without a thought"
        yield f"{key}={env.max_action_tokens}: {reason}, so longer answers are cut off; use {key}={bare} or more"
    one_row = (form.thinks or form.parts) and not several_rows(run)
    if one_row and env.max_turns * env.max_action_tokens > room:
        turns, tokens = room // env.max_action_tokens, f"env.max_action_tokens={env.max_action_tokens}"
        reason = f"with answers of {tokens} an episode ends out of context after {turns} of {env.max_turns} turns"
        yield f"data.max_response_length={room}: {reason}; use prompt.history=2, which gives each turn its own row"
