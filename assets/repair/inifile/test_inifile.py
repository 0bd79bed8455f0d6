import pytest
from inifile import Settings, SettingsError

TEXT = """\
retries = 3
home = /srv

[server]
Host = example.org
port: 8080
url = http://${host}:${port}   # put together
paths =
  ${home}/a
  ${home}/b

[client]
retries = 5
target = ${server:url}/api
"""


@pytest.fixture
def settings():
    return Settings.parse(TEXT)


def test_sections_keep_their_order(settings):
    assert settings.sections() == ["server", "client"]


def test_values_are_found_by_section_and_key(settings):
    assert settings.get("client", "retries") == "5"
    assert settings.get("server", "port") == "8080"


def test_keys_do_not_depend_on_case(settings):
    assert settings.get("server", "HOST") == settings.get("server", "host") == "example.org"


def test_the_default_section_stands_behind_the_others(settings):
    assert settings.get("server", "retries") == "3"
    assert settings.get("unknown", "home") == "/srv"


def test_keys_list_ones_own_before_the_default_ones(settings):
    assert settings.keys("client") == ["retries", "target", "home"]
    assert settings.keys("unknown") == ["retries", "home"]


def test_a_missing_key_is_reported(settings):
    with pytest.raises(SettingsError, match=r"no 'colour' in \[server\]"):
        settings.get("server", "colour")


def test_a_fallback_replaces_what_is_missing(settings):
    assert settings.get("server", "colour", "red") == "red"
    assert settings.get("server", "port", "1") == "8080"
    assert settings.get("server", "colour", "") == ""


def test_references_are_filled_in(settings):
    assert settings.get("server", "url") == "http://example.org:8080"


def test_references_may_name_another_section(settings):
    assert settings.get("client", "target") == "http://example.org:8080/api"


def test_a_reference_in_another_section_is_looked_up_there():
    settings = Settings.parse("[a]\nx = ${y}\ny = 1\n[b]\nz = ${a:x}\ny = 2\n")
    assert settings.get("b", "z") == "1"


def test_a_reference_to_nothing_is_reported():
    with pytest.raises(SettingsError, match="no 'y'"):
        Settings.parse("[a]\nx = ${y}").get("a", "x")


@pytest.mark.parametrize("text", ["x = ${x}", "x = ${y}\ny = ${x}"])
def test_values_may_not_refer_to_themselves(text):
    with pytest.raises(SettingsError, match="refers to itself"):
        Settings.parse(text).get("default", "x")


def test_a_value_may_be_referred_to_twice():
    assert Settings.parse("x = 1\ny = ${x}${x}").get("default", "y") == "11"


def test_indented_lines_go_on_with_the_value(settings):
    assert settings.list("server", "paths") == ["/srv/a", "/srv/b"]
    assert Settings.parse("a = 1\n 2\n 3").get("default", "a") == "1\n2\n3"


@pytest.mark.parametrize("text", ["  lost", "[a]\n  lost"])
def test_an_indented_line_needs_a_value_above_it(text):
    with pytest.raises(SettingsError, match="nothing to go on with") as caught:
        Settings.parse(text)
    assert caught.value.line == text.count("\n") + 1


def test_comments_and_blank_lines_are_skipped():
    settings = Settings.parse("# one\n\n; two\na = 1 ; three\n   # four\nb = 2")
    assert settings.keys("default") == ["a", "b"]
    assert settings.get("default", "a") == "1"


def test_a_mark_inside_a_word_starts_no_comment():
    assert Settings.parse("colour = red#2;3").get("default", "colour") == "red#2;3"


def test_only_the_first_sign_parts_key_and_value():
    settings = Settings.parse("a = b = c\nd: e=f")
    assert settings.get("default", "a") == "b = c"
    assert settings.get("default", "d") == "e=f"


def test_a_line_that_says_nothing_is_reported():
    with pytest.raises(SettingsError, match="line 2: neither") as caught:
        Settings.parse("a = 1\nnonsense\n")
    assert caught.value.line == 2


def test_a_key_may_not_be_set_twice_in_a_section():
    with pytest.raises(SettingsError, match="line 3: 'a' is set twice"):
        Settings.parse("[s]\na = 1\nA = 2")


def test_the_same_key_may_be_in_two_sections():
    settings = Settings.parse("[s]\na = 1\n[t]\na = 2\n[s]\nb = 3")
    assert [settings.get("s", "a"), settings.get("t", "a"), settings.get("s", "b")] == ["1", "2", "3"]


def test_section_names_may_have_spaces_around_them():
    assert Settings.parse("[ big  name ]").sections() == ["big  name"]


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("-3", -3), ("4k", 4000), ("2M", 2000000), ("1g", 10**9), ("10_000", 10000)]
)
def test_numbers_may_have_a_letter_for_their_size(text, number):
    assert Settings.parse(f"n = {text}").number("default", "n") == number


@pytest.mark.parametrize("text", ["", "k", "1.5", "12t", "1 2"])
def test_other_texts_are_no_numbers(text):
    with pytest.raises(SettingsError, match="not a whole number"):
        Settings.parse(f"n = {text}").number("default", "n")


@pytest.mark.parametrize(("text", "flag"), [("yes", True), ("On", True), ("1", True), ("no", False), ("FALSE", False)])
def test_flags_have_many_names(text, flag):
    assert Settings.parse(f"f = {text}").flag("default", "f") is flag


def test_other_texts_are_no_flags():
    with pytest.raises(SettingsError, match="neither true nor false"):
        Settings.parse("f = maybe").flag("default", "f")


def test_lists_leave_out_what_is_empty():
    assert Settings.parse("l = a, b,,\n  c").list("default", "l") == ["a", "b", "c"]
    assert Settings.parse("l =").list("default", "l") == []


def test_settings_are_written_as_they_are_read():
    text = "[a]\nx = 1\n  2\ny = z\n\n[b]\nw = 3\n"
    assert Settings.parse(text).render() == text


def test_values_that_were_set_are_found_and_written():
    settings = Settings()
    settings.set("s", " Key ", "value")
    assert settings.get("s", "key") == "value"
    assert settings.render() == "[s]\nkey = value\n"
