"""The quick way to generate a TextWorld game gives TextWorld's own game."""

from __future__ import annotations

from textworld.generator import make_game
from textworld.generator.inform7 import generate_inform7_source
from textworld.generator.text_grammar import Grammar
from textworld.logic import State

from envs import tw_generator, tw_making


def generated() -> object:
    options = tw_making.options(3)
    options.kb = tw_making.knowledge_base()
    options.nb_rooms, options.nb_objects, options.quest_length = 4, 6, 4
    return make_game(options)


def test_the_game_and_what_its_rules_become_are_the_same() -> None:
    slow = generated()
    with tw_generator.quick_generator():
        quick = generated()
    assert generate_inform7_source(quick) == generate_inform7_source(slow)
    state, base = slow.world.state, tw_making.knowledge_base()
    rules = [*base.rules.values(), *base.constraints.values()]
    found = [list(State.all_instantiations(state, rule)) for rule in rules]
    assert [list(tw_generator.instantiations(state, rule)) for rule in rules] == found
    assert 0 < sum(map(bool, found)) < len(rules), "some rules apply, others do not"


def test_the_grammar_that_is_checked_no_more_is_valid() -> None:
    assert Grammar().check()
