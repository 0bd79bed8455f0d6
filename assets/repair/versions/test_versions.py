from itertools import pairwise

import pytest
from ranges import Range
from versions import Version, VersionError, latest

ORDERED = [
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


@pytest.mark.parametrize("text", ["1.2.3", "0.0.0", "10.20.30", "1.0.0-rc.1", "1.0.0+build.5", "1.0.0-a-b.1+exp.7"])
def test_versions_are_written_as_they_were_read(text):
    assert str(Version.parse(text)) == text


def test_a_version_has_its_parts():
    version = Version.parse(" 1.2.3-rc.1+b7 ")
    assert (version.major, version.minor, version.patch) == (1, 2, 3)
    assert version.pre == ("rc", "1")
    assert version.build == "b7"


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.x", "v1.2.3", "1.2.3-01"])
def test_other_texts_are_no_versions(text):
    with pytest.raises(VersionError):
        Version.parse(text)


def test_a_pre_release_part_may_be_zero():
    assert Version.parse("1.0.0-0").pre == ("0",)


@pytest.mark.parametrize(("low", "high"), list(pairwise(ORDERED)))
def test_versions_are_ordered(low, high):
    assert Version.parse(low) < Version.parse(high)
    assert not Version.parse(high) < Version.parse(low)


def test_builds_do_not_count_in_comparisons():
    one, other = Version.parse("1.0.0+a"), Version.parse("1.0.0+b")
    assert one == other
    assert hash(one) == hash(other)
    assert one != "1.0.0"


def test_releases_have_no_pre_release_part():
    assert Version.parse("1.0.0").is_release
    assert not Version.parse("1.0.0-rc").is_release


@pytest.mark.parametrize(
    ("text", "part", "next_text"),
    [
        ("1.2.3", "major", "2.0.0"),
        ("1.2.3", "minor", "1.3.0"),
        ("1.2.3", "patch", "1.2.4"),
        ("1.2.3-rc.1", "patch", "1.2.3"),
        ("1.2.3+b", "patch", "1.2.4"),
        ("0.0.0", "minor", "0.1.0"),
    ],
)
def test_bump_counts_up_and_clears_what_is_right_of_it(text, part, next_text):
    assert str(Version.parse(text).bump(part)) == next_text


def test_other_parts_cannot_be_bumped():
    with pytest.raises(VersionError, match="epoch"):
        Version(1).bump("epoch")


def test_the_latest_is_the_highest_release():
    assert latest(["1.9.0", "1.10.0", "2.0.0-rc.1"]) == "1.10.0"
    assert latest(["1.9.0", "2.0.0-rc.1"], releases_only=False) == "2.0.0-rc.1"


def test_there_may_be_no_latest():
    assert latest([]) is None
    assert latest(["1.0.0-rc.1"]) is None


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.2", "1.2.0", "1.1.9"),
        (">1.2.0", "1.2.1", "1.2.0"),
        ("<2", "1.99.0", "2.0.0"),
        ("<=1.5.0", "1.5.0", "1.5.1"),
        ("!=1.3.0", "1.3.1", "1.3.0"),
        ("=1.3.0", "1.3.0", "1.3.1"),
        ("1.3.0", "1.3.0", "1.2.9"),
        ("1.3", "1.3.7", "1.4.0"),
        ("1", "1.9.9", "2.0.0"),
        ("1.x", "1.0.0", "0.9.0"),
        ("1.2.*", "1.2.5", "1.3.0"),
    ],
)
def test_bounds_hold_at_their_edges(text, inside, outside):
    assert inside in Range(text)
    assert outside not in Range(text)


def test_a_lone_wildcard_allows_every_release():
    assert "0.0.1" in Range("*")
    assert "99.0.0" in Range("x")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("^1.2.3", "1.9.0", "2.0.0"),
        ("^1.2.3", "1.2.3", "1.2.2"),
        ("^0.2.3", "0.2.9", "0.3.0"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("^0.0", "0.0.9", "0.1.0"),
    ],
)
def test_a_caret_keeps_the_first_number_that_counts(text, inside, outside):
    assert inside in Range(text)
    assert outside not in Range(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"), [("~1.2.3", "1.2.9", "1.3.0"), ("~1.2", "1.2.0", "1.3.0"), ("~1", "1.9.0", "2.0.0")]
)
def test_a_tilde_keeps_the_minor_number(text, inside, outside):
    assert inside in Range(text)
    assert outside not in Range(text)


def test_all_bounds_between_commas_must_hold():
    allowed = Range(">=1.2, <2, !=1.5.0")
    assert "1.4.0" in allowed
    assert "1.5.0" not in allowed
    assert "2.0.0" not in allowed


def test_one_of_the_alternatives_is_enough():
    allowed = Range("^1.2 || ^3.0")
    assert "1.3.0" in allowed
    assert "3.1.0" in allowed
    assert "2.0.0" not in allowed


def test_pre_releases_are_allowed_only_where_they_are_named():
    assert "2.0.0-rc.2" in Range(">=2.0.0-rc.1")
    assert "2.1.0-rc.1" not in Range(">=2.0.0-rc.1")
    assert "2.0.0-rc.1" not in Range(">=1.0")
    assert "2.0.0-beta" not in Range(">=2.0.0-rc.1")


def test_versions_can_be_given_ready_made():
    assert Version(1, 5) in Range("^1.2")


def test_the_best_version_is_the_highest_that_is_allowed():
    assert Range("^1.2").best(["1.2.0", "1.10.0", "1.9.0", "2.0.0"]) == "1.10.0"
    assert Range("^3").best(["1.2.0", "2.0.0"]) is None


@pytest.mark.parametrize("text", ["", ">", "1.2,", "latest", ">=1 <2"])
def test_other_texts_are_no_ranges(text):
    with pytest.raises(VersionError, match="not a range"):
        Range(text)
