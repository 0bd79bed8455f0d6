"""``python -m benchmarks.mismatch``: gradients by hand, and what corrections do to them."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from benchmarks.mismatch.__main__ import CHOSEN, Options, chosen, main
from benchmarks.mismatch.corrected import Correction, Rows
from benchmarks.mismatch.game import CONTEXTS, INPUTS, LENGTH, VOCABULARY, Game, beginners, commanded, log_probs
from benchmarks.mismatch.results import Figures, advice, biases, cells, compared, figures, line, read, whole
from benchmarks.mismatch.samplers import HEALTHY, SAMPLERS, quantised
from benchmarks.mismatch.study import Cell, Size, rated, sampled, step_gradients
from turngrid.config.base import CONF
from turngrid.config.compose import compose
from turngrid.experiments.tables import listed
from turngrid.records.process.exit_codes import own_words
from turngrid.records.statistics import Interval

NODE = "algorithm.rollout_correction"


@cache
def plain() -> DictConfig:
    return compose([f"{NODE}.bypass_mode=false"])


@cache
def correction(name: str, **settings: float | str) -> Correction:
    """The correction of conf/correction/, with settings of verl's."""
    config = OmegaConf.merge(plain(), OmegaConf.load(CONF / f"correction/{name}.yaml"))
    for key, value in settings.items():
        OmegaConf.update(config, f"{NODE}.{key}", value)
    return Correction(config)


# ---- the game


def test_success_is_that_of_a_binomial() -> None:
    """Each token of a command has .8: 3 or 4 of 4 rooms, q = .8^3, are 4 q^3 (1 - q) + q^4."""
    tables = torch.full((1, CONTEXTS, VOCABULARY), 0.2 / (VOCABULARY - 1), dtype=torch.float64)
    for place in range(LENGTH):
        contexts, words = commanded(place)
        tables[0, contexts, words] = 0.8
    q = 0.8**3
    assert Game(4).goal == 3
    assert Game(4).success(tables.log()).item() == pytest.approx(4 * q**3 * (1 - q) + q**4, abs=1e-12)
    draws = torch.rand(1, 40_000, 12, generator=torch.Generator().manual_seed(0))
    won = Game(4).episodes(tables, draws).won.double().mean().item()
    assert won == pytest.approx(4 * q**3 * (1 - q) + q**4, abs=4 * (0.25 / 40_000) ** 0.5)


def test_the_gradient_of_two_turns_by_hand() -> None:
    """Both rooms must be left, so J is the product of six tokens' p, and dJ/dz = J (1[command] - p)
    for the logits z of the six contexts."""
    weights = beginners(2)
    tables = log_probs((weights[0].double(), weights[1].double()))
    on_path = [(at[:2], words[:2]) for at, words in map(commanded, range(LENGTH))]
    by_hand = torch.zeros(2, VOCABULARY, weights[1].shape[2], dtype=torch.float64)
    won = torch.stack([tables[:, at, words] for at, words in on_path]).sum(dim=(0, 2)).exp()
    hidden = torch.tanh(INPUTS.double() @ weights[0].double().transpose(1, 2))
    for contexts, words in on_path:
        for context, word in zip(contexts, words, strict=True):
            ahead = torch.nn.functional.one_hot(word, VOCABULARY) - tables[:, context].exp()
            by_hand += won.view(-1, 1, 1) * ahead.unsqueeze(2) * hidden[:, None, context]
    assert Game(2).goal == 2 and Game(2).success(tables).tolist() == pytest.approx(won.tolist(), abs=1e-12)
    found = Game(2).gradient(weights)[:, weights[0][0].numel() :]
    assert torch.allclose(found, by_hand.flatten(1), atol=1e-9)


# ---- corrections


def gradients(name: str, turns: int, *corrections: Correction, seeds: int = 8, batches: int = 24) -> list[Interval]:
    """The bias of each correction with this sampler."""
    game, weights = Game(turns), beginners(seeds)
    draw = torch.Generator().manual_seed(1)
    drawn = sampled(game, SAMPLERS[name].make, [weights], batches, draw)
    truth = game.gradient(weights).numpy() / game.tokens
    biases = []
    for each in corrections:
        steps, _ = step_gradients(*drawn, each)
        columns = rated(steps.view(seeds, batches, -1).numpy(), truth)
        biases.append(figures(0.0, Cell(**columns, kept=[1.0] * seeds, success=[0.0] * seeds)).bias)
    return biases


def test_without_a_difference_every_correction_is_the_plain_estimator() -> None:
    names = ["none", *(name for name in CHOSEN if name != "none")]
    first, *others = gradients(HEALTHY, 4, *map(correction, names), batches=8)
    assert first.low == 0 and first.mean < 0.2
    assert others == [first] * len(others)
    weights, game = beginners(1), Game(4)
    drawn = sampled(game, SAMPLERS[HEALTHY].make, [weights], 1, torch.Generator().manual_seed(0))
    found, kept = step_gradients(*drawn, correction("none"))
    won = drawn[1].won.double().view(8, 8)
    ahead = ((won * 8 - won.sum(dim=1, keepdim=True)) / 7).view(1, 64, 1)  # RLOO
    parameters = [matrix.clone().requires_grad_() for matrix in weights]
    aim = (drawn[1].chosen(log_probs((parameters[0], parameters[1]))) * ahead).mean()
    by_hand = torch.cat([part.flatten() for part in torch.autograd.grad(aim, parameters)])
    assert kept.all() and torch.allclose(found[0].float(), by_hand, atol=1e-7)


def test_weights_of_whole_rows_without_truncation_are_unbiased() -> None:
    none, whole, cut = gradients(
        "int4", 2, correction("none"), correction("sequence_tis", rollout_is_threshold=1e9), correction("geometric")
    )
    assert whole.low == 0 and whole.mean < none.low
    assert cut.low > 0.5  # next to no row is within .1 %


def test_icepop_drops_what_is_out_of_its_bounds() -> None:
    ratios = torch.tensor([[0.4, 0.49, 0.51, 1.0, 4.9, 5.1]])
    weights, mask = correction("icepop").weighed(ratios.log(), torch.zeros(1, 6))
    assert weights is not None and mask.all()
    assert weights.flatten().tolist() == pytest.approx([0, 0, 0.51, 1, 4.9, 0])


def test_a_step_is_the_mean_over_tokens_that_are_left() -> None:
    """Rows whose mean log-ratio is off are dropped; so is one that is alone in its group."""
    ratio = torch.zeros(8, 4)
    ratio[[1, 5, 6], 0] = 0.1  # of two groups of two in each of two steps
    scores = torch.tensor([1.0, 0, 1, 0, 1, 0, 0, 1])
    numbers, drawn = torch.arange(8), torch.rand(8, 4, generator=torch.Generator().manual_seed(0)).log()
    log_prob = drawn.clone().requires_grad_()
    loss, kept = correction("geometric").loss(log_prob, Rows(drawn - ratio, scores, numbers // 2, numbers // 4))
    (gradient,) = torch.autograd.grad(loss, log_prob)
    assert kept.all(dim=1).tolist() == [False, False, True, True, False, False, False, False]
    expected = torch.zeros(8, 4)
    expected[2], expected[3] = -1 / 8, 1 / 8  # advantages 1 and -1, over eight tokens
    assert torch.allclose(gradient, expected)


# ---- samplers


def test_samplers_differ_as_they_say() -> None:
    row = torch.tensor([[[7.0, 2.6, -0.4, 0.0], [0.0, 0.7, -0.34, 0.1]]])
    assert torch.allclose(quantised(row, 4)[0], torch.tensor([[7.0, 3, 0, 0], [0.0, 0.7, -0.3, 0.1]]))
    old, new = beginners(2), tuple(matrix + 0.1 for matrix in beginners(2))
    both = [old, (new[0], new[1])]
    tables = log_probs(both[-1])
    assert torch.equal(SAMPLERS["stale_1"].make(both).reported, log_probs(old))
    assert torch.equal(SAMPLERS["stale_8"].make(both).reported, log_probs(old))
    apart = [(SAMPLERS[name].make(both).reported - tables).abs().mean() for name in ("bf16", "fp8_e4m3", "fp8_e5m2")]
    assert 0 < apart[0] < apart[1] < apart[2]
    cut, hidden = (SAMPLERS[f"{name}_0.9"].make(both) for name in ("top_p", "hidden_top_p"))
    assert torch.equal(cut.probabilities, hidden.probabilities) and torch.equal(hidden.reported, tables)
    assert torch.allclose(cut.probabilities.sum(dim=-1), torch.ones(2, CONTEXTS))
    likeliest = tables.exp().sort(dim=-1, descending=True).values[0, 0]
    fewest = int((likeliest.cumsum(dim=0) < 0.9).sum()) + 1
    assert int((cut.probabilities[0, 0] > 0).sum()) == fewest
    noisy = SAMPLERS["noise_0.05"].make(both)
    assert torch.equal(noisy.reported, tables) and noisy.noise == 0.05


# ---- results and the command


def test_differences_are_paired_and_corrected_for_their_number() -> None:
    """Differences .1, .2, .3: t of .025 / 2 with two degrees is 6.205, times .1 / sqrt(3)."""
    one = Interval(0, 0, 0)
    rows = {name: Figures(0.1, one, one, one, 1.0, success) for name, success in (
        ("none", (0.1, 0.2, 0.3)), ("k3", (0.2, 0.4, 0.6)), ("icepop", (0.1, 0.2, 0.3))
    )}  # fmt: skip
    less = compared(rows)
    assert less["k3"].mean == pytest.approx(0.2) and less["icepop"] == Interval(0, 0, 0)
    assert less["k3"].high - 0.2 == pytest.approx(6.205 * 0.1 / 3**0.5, rel=1e-3)


def test_a_bias_has_no_noise_of_its_mean() -> None:
    """Batches truth + (1, 0), truth - (1, 0) have a mean without error: 0 - 1 in squares."""
    truth = np.array([[2.0, 0.0]])
    batches = truth[:, None] + np.array([[[1.0, 0], [-1.0, 0]]])
    assert rated(batches, truth) == {"bias2": [-0.25], "along": [1.0], "size2": [0.75], "variance": [0.5]}


DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "mismatch.md").read_text(encoding="utf-8")
SMALL = re.findall(r"^python -m benchmarks\.mismatch (.+) # seconds$", PAGE, re.MULTILINE)[0].split()


def test_what_was_measured_is_not_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.jsonl"
    assert main([*SMALL, f"results={file}"]) == 0
    first = file.read_text()
    assert [key.correction for key in read(file)] == ["none", "token_tis"]
    assert [json.dumps(line(*item)) for item in read(file).items()] == first.splitlines()
    file.write_text(first.splitlines()[0] + "\n" + first.splitlines()[1][:50])  # killed while it wrote
    assert main([*SMALL, f"results={file}"]) == 0
    assert file.read_text().splitlines()[2] == first.splitlines()[1]
    assert main([*SMALL, f"results={file}", "actor_rollout_ref.actor.clip_ratio_low=0.1"]) == 0
    assert len(file.read_text().splitlines()) == 5 and len(read(file)) == 4, "with other settings it is"
    assert "| `noise_0.2` |" in capsys.readouterr().out
    assert "## noise_0.2, 2 turns" in (tmp_path / "tables.md").read_text()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("samplers=[bff16]", "samplers=bff16: no such difference; use samplers=bf16"),
        ("corrections=[auto]", "corrections=auto: no option of correction=; use one of geometric,"),
        ("corrections=[k3:rollout_rs_threshold=0.9_1.1]", "use algorithm.rollout_correction.rollout_rs_threshold=0.01"),
        ("corrections=[k3:rollout_is_batch_normalize=true]", "does not read rollout_is_batch_normalize=true; use one"),
        ("actor_rollout_ref.actor.clip_ratio=0.1", "use actor_rollout_ref.actor.clip_ratio_low=,"),
        ("turns=[0]", "turns=0: it is a number of turns"),
        ("seeds=1", "seeds=1: noise is estimated from 2 or more; use seeds=2"),
        ("bf16", "use samplers=bf16"),
    ],
)
def test_refused_before_anything_is_measured(words: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([words]) == 2 and answer in capsys.readouterr().err


# ---- docs/mismatch.md

SIZE = Size(Options.seeds, Options.batches, Options.steps)
FOUND = cells(read(DOCS / "mismatch/results.jsonl"), SIZE)


def test_the_tables_are_those_of_the_results() -> None:
    assert advice(FOUND) in PAGE and biases(FOUND, 24) in PAGE
    assert (DOCS / "mismatch/tables.md").read_text(encoding="utf-8") == f"{advice(FOUND)}\n{whole(FOUND)}"


def test_every_cell_is_measured_with_every_option() -> None:
    asked = {(name, int(turns)) for name in SAMPLERS for turns in listed(Options.turns)}
    assert set(FOUND) == asked and all(set(own) == set(CHOSEN) for own in FOUND.values())


def test_its_commands_are_accepted_and_its_samplers_exist() -> None:
    commands = re.findall(r"^python -m benchmarks\.mismatch ([^#\n]+)", PAGE, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        options = Options()
        assert own_words(command.split(), options) == ([], [])
        assert chosen(listed(options.samplers))
    assert all(f"`{name}`" in PAGE for name in SAMPLERS)
