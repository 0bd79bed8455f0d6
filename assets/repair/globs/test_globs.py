import pytest
from globs import IgnoreList, PatternError, expand_braces, match_name, match_path


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("main.py", "main.py"),
        ("main.py", "*.py"),
        ("main.py", "*"),
        ("main.py", "m*.p*"),
        ("a.b.py", "*.py"),
        ("aab", "*ab"),
        ("ab", "a*b*"),
        ("main.py", "????.py"),
        ("", "*"),
    ],
)
def test_names_that_match(name, pattern):
    assert match_name(name, pattern)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("main.py", "main"), ("main.py", "*.pyc"), ("abc", "a?"), ("abc", "????"), ("", "?"), ("a", "")],
)
def test_names_that_do_not_match(name, pattern):
    assert not match_name(name, pattern)


def test_sets_list_characters_and_ranges():
    assert match_name("v1", "v[0-9]")
    assert match_name("vx", "v[abx]")
    assert match_name("vc", "v[a-cx]")
    assert not match_name("vd", "v[a-cx]")


def test_ranges_include_both_ends():
    assert match_name("a", "[a-c]")
    assert match_name("c", "[a-c]")


def test_sets_can_be_turned_round():
    assert match_name("vx", "v[!0-9]")
    assert not match_name("v1", "v[!0-9]")


def test_a_bracket_or_dash_may_stand_for_itself():
    assert match_name("]", "[]a]")
    assert match_name("-", "[a-]")
    assert not match_name("b", "[a-]")


def test_a_set_after_a_star_is_found_again():
    assert match_name("ab12", "*[0-9]")
    assert not match_name("ab1x", "*[0-9]")


def test_a_set_must_be_closed():
    with pytest.raises(PatternError, match="set"):
        match_name("a", "[a-z")


def test_hidden_names_need_a_dot_in_the_pattern():
    assert not match_name(".git", "*")
    assert match_name(".git", ".*")


def test_braces_list_choices():
    assert expand_braces("*.{py,txt}") == ["*.py", "*.txt"]


def test_braces_can_be_nested():
    assert expand_braces("{a,b{1,2}}") == ["a", "b1", "b2"]


def test_several_braces_give_all_combinations():
    assert expand_braces("{a,b}-{c,d}") == ["a-c", "a-d", "b-c", "b-d"]


def test_choices_may_be_empty():
    assert expand_braces("a{,.bak}") == ["a", "a.bak"]


def test_braces_without_a_comma_are_kept():
    assert expand_braces("a{b}c") == ["a{b}c"]
    assert expand_braces("{a}{b,c}") == ["{a}b", "{a}c"]
    assert expand_braces("plain") == ["plain"]


def test_braces_must_be_closed():
    with pytest.raises(PatternError, match="brace"):
        expand_braces("{a,b")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("src/main.py", "src/*.py"),
        ("src/main.py", "**/*.py"),
        ("main.py", "**/*.py"),
        ("a/b/c/d.py", "a/**/d.py"),
        ("a/d.py", "a/**/d.py"),
        ("a/b", "**"),
        ("/a/b/", "a/b"),
        ("docs/x.md", "{docs,src}/*"),
    ],
)
def test_paths_that_match(path, pattern):
    assert match_path(path, pattern)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("src/main.py", "*.py"),
        ("src/lib/main.py", "src/*.py"),
        ("a/b", "a"),
        ("a", "a/b"),
        ("b/c/d.py", "a/**/d.py"),
        (".git/config", "**/config"),
    ],
)
def test_paths_that_do_not_match(path, pattern):
    assert not match_path(path, pattern)


def test_names_are_ignored_at_any_depth():
    ignore = IgnoreList(["*.pyc"])
    assert ignore.ignores("a.pyc")
    assert ignore.ignores("src/lib/a.pyc")
    assert not ignore.ignores("a.py")


def test_patterns_with_a_separator_match_from_the_root():
    ignore = IgnoreList(["src/tmp"])
    assert ignore.ignores("src/tmp")
    assert not ignore.ignores("lib/src/tmp")


def test_a_leading_separator_means_the_root():
    ignore = IgnoreList(["/notes"])
    assert ignore.ignores("notes")
    assert not ignore.ignores("docs/notes")


def test_what_lies_in_an_ignored_folder_is_ignored():
    ignore = IgnoreList(["build/"])
    assert ignore.ignores("build/lib/x.py")
    assert ignore.ignores("src/build/x.py")
    assert not ignore.ignores("builds/x.py")


def test_comments_and_blank_lines_say_nothing():
    assert IgnoreList(["# *", "", "  "]).filter(["a", "b"]) == ["a", "b"]


def test_the_last_pattern_decides():
    assert IgnoreList(["*.log", "!keep.log"]).filter(["a.log", "keep.log"]) == ["keep.log"]
    assert IgnoreList(["!keep.log", "*.log"]).filter(["a.log", "keep.log"]) == []


def test_a_path_in_an_ignored_folder_is_not_taken_back():
    assert IgnoreList(["logs", "!keep.log"]).ignores("logs/keep.log")
