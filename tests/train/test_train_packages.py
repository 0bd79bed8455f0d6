"""Names that other packages offer by their metadata: none is installed or imported."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turngrid.config import suggest
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs import extensions
from turngrid.train.app import main
from turngrid.train.arguments import help_text, parsed
from turngrid.train.launch import one_run

Offer = Callable[..., Path]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Writes what pip would write for a package with these entry points and options."""

    def write(package: str, points: dict[str, str], *options: str) -> Path:
        place = tmp_path / package
        (place / f"{package}-1.dist-info").mkdir(parents=True)
        (place / f"{package}-1.dist-info" / "METADATA").write_text(f"Name: {package}\nVersion: 1\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (place / f"{package}-1.dist-info" / "entry_points.txt").write_text("\n".join(["[turngrid]", *lines]))
        (place / package).mkdir()
        (place / package / "__init__.py").write_text("raise SystemExit('nobody chose this package')")
        for option in options:
            file = place / package / "conf" / option
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("# @package _global_\n")
        monkeypatch.syspath_prepend(str(place))
        return place / package

    forget()
    yield write
    monkeypatch.undo()
    forget()


def forget() -> None:
    for kept in (extensions._points, extensions._folders, extensions.options):
        kept.cache_clear()


def test_options_are_found_and_nothing_is_imported(offer: Offer) -> None:
    folder = offer("hill", {"conf": "hill.conf"}, "env/hill.yaml", "credit/slope.yaml")
    assert extensions.options() == {
        "env": {"hill": folder / "conf/env/hill.yaml"},
        "credit": {"slope": folder / "conf/credit/slope.yaml"},
    }
    assert "hill" in suggest.all_options()["env"] and "| hill |" in help_text()
    assert "hill" not in sys.modules


def test_a_grid_finds_them_and_own_options(offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer("hill", {"conf": "hill.conf"}, "recipe/hilly.yaml")
    mine = tmp_path / "own" / "budget" / "mine.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("# @package _global_\nbudget: {name: mine, sft_share: 0.25, rl_steps: 1}\n")
    started: list[list[str]] = []
    monkeypatch.setattr(one_run, "call", lambda arguments: started.append(arguments[3:]) or 0)
    words = [f"--config-dir={tmp_path / 'own'}", "budget=mine", "recipe=hilly", "seed=0,1", f"output_dir={tmp_path}"]
    assert main(["-m", *words]) == 0
    asked = [parsed(arguments[1:]) for arguments in started if arguments[0] == "turngrid.train"]
    runs = [compose(run.overrides, run.config_dir) for run in asked]
    assert [(run.budget.sft_share, run.seed) for run in runs] == [(0.25, 0), (0.25, 1)]


NAME, CONF = "env.name=x", "env=x"


@pytest.mark.parametrize(
    ("words", "offered", "options", "said"),
    [
        (NAME, [{"env.gym": "a.b:C"}], (), "packages turngrid and one both offer env.gym: rename it"),
        (NAME, [{"env.x": "a.b:C"}] * 2, (), "(one and two|two and one) both offer env.x: .* install only one"),
        (CONF, [{"conf": "one.conf"}], ("reward/dense.yaml",), "packages turngrid and one both offer reward=dense"),
        (CONF, [{"conf": "one.conf"}], (), "one: its entry point conf = 'one.conf' names no package's folder"),
    ],
)
def test_a_name_for_two_things_is_refused(
    words: str, offered: list[dict[str, str]], options: tuple[str, ...], said: str, offer: Offer
) -> None:
    for package, points in zip(("one", "two"), offered, strict=False):
        offer(package, points, *options)
    with pytest.raises(ConfigError, match=said):
        compose([words])


def test_no_option_of_ones_own_extends_a_run(tmp_path: Path) -> None:
    (tmp_path / "tracking").mkdir()
    text = "# @package _global_\nextend: runs/NAME\ntracking: {name: longer}\n"
    (tmp_path / "tracking" / "longer.yaml").write_text(text)
    with pytest.raises(ConfigError, match="^extend=runs/NAME belongs on the command line"):
        compose(["tracking=longer"], str(tmp_path))
