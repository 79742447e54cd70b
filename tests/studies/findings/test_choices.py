"""Baseline and output. Oracles: closed forms of a linear net, brute force, SciPy, and planted records."""

from itertools import permutations

import pytest
import torch
from kept_records import kept_records
from scipy.stats import spearmanr
from torch import nn

from helpers import cnn, flat_points
from leastpath._support.store import Store
from studies.findings.choices import task as tasks
from studies.findings.choices.baseline import BASELINE, STARTS, from_baselines
from studies.findings.choices.output import FILLS, OUTPUT, OUTPUTS, of_outputs
from studies.findings.choices.records import by_data, pairs_of
from studies.findings.choices.task import GEODESIC, IG, ImageTask, likeness, top_overlap
from studies.findings.config import Setting

METHODS = ["integrated_gradients", "idgi", "guided_ig", "geodesic_descent"]


def images(n: int, channels: int = 1, side: int = 4) -> torch.Tensor:
    return flat_points(n, channels * side * side, seed=5).sigmoid().view(n, channels, side, side)


def linear_task(n: int = 3) -> tuple[ImageTask, torch.Tensor]:
    """A linear net of two classes, and w (16,): the gradient of any of its outputs is a multiple of w everywhere."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).requires_grad_(False).eval()
    net[1].weight.copy_(flat_points(2, 16, seed=3) / 4)
    net[1].bias.zero_()
    return ImageTask("digits", net, images(n)), net[1].weight[1] - net[1].weight[0]


@pytest.fixture(scope="module")
def setting(tmp_path_factory) -> Setting:
    return Setting(Store(tmp_path_factory.mktemp("store"), {}), quick=True)


# ---- measures ----------------------------------------------------------------------------------------------------


def test_ranks_are_scipys_and_a_scaled_copy_is_alike_but_for_its_sign():
    a, b = flat_points(4, 30, seed=1), flat_points(4, 30, seed=2)
    expected = [spearmanr(x.abs(), y.abs())[0] for x, y in zip(a, b, strict=True)]
    assert likeness(a, b)["rank"] == pytest.approx(expected, abs=1e-5)
    found = likeness(a, -2 * a)
    assert found["rank"] == found["top"] == [1.0] * 4
    assert found["cosine"] == [-1.0] * 4


def test_the_shuffled_cosine_is_the_mean_over_all_shuffles():
    a, b = flat_points(1, 5, seed=1) + 1, flat_points(1, 5, seed=2) + 0.5
    shuffles = torch.tensor(list(permutations(range(5))))
    cosines = torch.cosine_similarity(a.double(), b.double()[0, shuffles])
    assert likeness(a, b)["shuffled"] == pytest.approx([float(cosines.mean())], abs=1e-5)


def test_attributions_that_are_zero_are_like_nothing():
    a = torch.stack([torch.zeros(20), torch.arange(20.0)])
    found = likeness(a, torch.ones(2, 20) + a)
    assert all(numbers[0] is None for numbers in found.values())
    assert found["rank"][1] == 1


def test_the_overlap_of_tops_is_that_of_sets():
    a, b = flat_points(6, 30, seed=1), flat_points(6, 30, seed=2)
    tops = [[set(sorted(range(30), key=lambda i, row=row: -abs(row[i]))[:9]) for row in of.tolist()] for of in (a, b)]
    expected = [len(x & y) / 9 for x, y in zip(*tops, strict=True)]
    assert top_overlap(a, b, share=0.3).tolist() == pytest.approx(expected)


# ---- the baseline ------------------------------------------------------------------------------------------------


def test_on_a_linear_net_baselines_change_ig_as_the_formula_says_and_idgi_not_at_all():
    task, w = linear_task()
    found = from_baselines(task, [IG, "idgi"])["methods"]
    starts = {name: make(task.inputs) for name, make in STARTS.items()}
    for pair, (a, b) in pairs_of(starts).items():
        lines = [(task.inputs - starts[name]).flatten(1) * w for name in (a, b)]  # up to a factor an example
        assert found[IG]["pairs"][pair]["rank"] == pytest.approx(likeness(*lines)["rank"], abs=1e-3)
        assert [abs(x) for x in found[IG]["pairs"][pair]["cosine"]] == pytest.approx(
            [abs(x) for x in likeness(*lines)["cosine"]], abs=1e-3
        )
        assert found["idgi"]["pairs"][pair]["rank"] == pytest.approx([1.0] * 3, abs=1e-3)
    assert all(error < 0.02 for error in found[IG]["error"])


def test_a_batch_is_a_loop():
    task = ImageTask("digits", cnn().requires_grad_(False), images(2, channels=2, side=6))
    alone = [ImageTask("digits", task.model, image[None]) for image in task.inputs]
    one_by_one = [from_baselines(one, [IG])["methods"][IG]["pairs"] for one in alone]
    for pair, found in from_baselines(task, [IG])["methods"][IG]["pairs"].items():
        for name, numbers in found.items():
            looped = [alone[pair][name][0] for alone in one_by_one]
            assert numbers == pytest.approx(looped, abs=1e-3)


def planted_baseline(method: str, level: float, n: int = 12) -> dict:
    """Every measure of pair i is level + i / 100 for all examples, but for a little that differs between examples."""
    pairs = {
        pair: {name: [level + i / 100 + k / 1e4 for k in range(n)] for name in ("rank", "cosine", "top", "shuffled")}
        for i, pair in enumerate(pairs_of(STARTS))
    }
    found = {"pairs": pairs, "change": {}, "error": [0.01] * n}
    if method == GEODESIC:
        found["again"] = {"rank": [0.9] * n}
    return {"data": "digits", "side": 8, "methods": {method: found}}


@pytest.mark.parametrize(("level", "verdict"), [(0.7, "less"), (0.1, "more"), (0.3, "not clearly less or more")])
def test_the_words_follow_the_numbers(level, verdict):
    levels = {IG: 0.3, "idgi": 0.5, "guided_ig": 0.2, GEODESIC: level}
    section = BASELINE.section({f"digits {method}": planted_baseline(method, at) for method, at in levels.items()})
    assert f"On digits Geodesic IG depends on the baseline {verdict} than IG" in section
    assert f"{'Geodesic IG (descent)' if level == 0.7 else 'IDGI'} depends on the baseline least" in section
    assert "| digits, IG | 0.30 | 0.31 | 0.32 | 0.33 | 0.34 | 0.35 | – |" in section  # in the order of the head
    assert "12 unseen" in section and "Photographs" not in section


# ---- the explained output ----------------------------------------------------------------------------------------


def test_on_a_linear_net_all_outputs_but_the_logit_have_one_ranking():
    task, _ = linear_task()
    found = of_outputs(task, [IG, GEODESIC])["methods"]
    for pair in pairs_of(["logit margin", "log-softmax", "softmax"]):
        assert found[IG]["ranks"][pair] == pytest.approx([1.0] * 3, abs=1e-3)
    for output in ("logit", "logit margin"):  # a constant gradient is a flat space, where the line is shortest
        assert found[GEODESIC]["outputs"][output]["length_ratio"] == pytest.approx([1.0] * 3, abs=1e-3)
    assert found[IG]["outputs"]["softmax"]["length_ratio"] == [1.0] * 3


def test_the_drop_is_that_of_masking_by_hand():
    task, _ = linear_task(n=1)
    result = task.explained(IG, "raw", torch.zeros(1, 1, 4, 4))
    order = result.values.flatten().abs().argsort(descending=True, stable=True)
    label = int(task.model(task.inputs).argmax())
    clean = task.model(task.inputs).softmax(1)[0, label]
    areas = torch.tensor([0.01, 0.02, *(k / 100 for k in range(5, 66, 5))])
    drops = []
    for area in areas:
        masked = task.inputs.flatten().clone()
        masked[order[: max(1, int(area * 16 + 0.5))]] = 0
        drops.append(clean - task.model(masked.view(1, 1, 4, 4)).softmax(1)[0, label])
    expected = torch.trapezoid(torch.stack(drops), areas) / (areas[-1] - areas[0])
    found = of_outputs(task, [IG])["methods"][IG]["outputs"]["logit"]["masked"]["black"]
    assert found == pytest.approx([float(expected)], abs=1e-4)


def planted_outputs(method: str, drop: dict[str, float], rank: float, n: int = 12) -> dict:
    few = [k / 1e4 for k in range(n)]
    outputs = {
        name: {
            "change": [2.0] * n, "cancellation": [4.0 if method == IG else 1.0] * n, "gap": [0.0] * n,
            "length_ratio": [1.0 if method == IG else 0.5] * n,
            "masked": {fill: [drop.get(name, 0.4) + x for x in few] for fill in FILLS},
        }
        for name in OUTPUTS
    }  # fmt: skip
    ranks = {pair: [rank + x for x in few] for pair in pairs_of(OUTPUTS)}
    return {"data": "digits", "side": 8, "methods": {method: {"outputs": outputs, "ranks": ranks}}}


def test_outputs_are_told_apart_by_their_numbers():
    line = planted_outputs(IG, {}, 0.9)
    ours = planted_outputs(GEODESIC, {"logit": 0.5, "softmax": 0.1}, 0.2)
    section = OUTPUT.section({f"digits {IG}": line, f"digits {GEODESIC}": ours})
    told = "better for logit, not clearly better or worse for logit margin and log-softmax, worse for softmax"
    assert f"filled with black, {told}; filled with the mean, {told}." in section
    assert "rank correlation of 0.20, below IG's 0.90" in section
    # length ratio, IG's cancellation over |Δf|, the geodesic's over IG's, then the drops
    assert "| digits, logit | 0.50 | 2.0 | 0.25 | 0.40 | +0.10 (p 0.0005) | 0.40 | +0.10 (p 0.0005) |" in section
    assert OUTPUT.section({f"digits {IG}": line}) == "Nothing can be compared yet."


# ---- the studies -------------------------------------------------------------------------------------------------


def test_quick_studies_of_digits(setting):
    records = kept_records(BASELINE, setting)
    section = BASELINE.section(records)
    assert list(records) == [f"digits {method}" for method in METHODS]
    for title in ("IG", "IDGI", "Guided IG", "Geodesic IG (descent)"):
        assert section.count(f"\n| digits, {title} | ") == 2  # both tables
    for key in records:  # any part of the records will do
        assert "| digits, " in BASELINE.section({key: records[key]})
    section = OUTPUT.section(kept_records(OUTPUT, setting))
    for name in ("logit", "logit margin", "log-softmax", "softmax", "logit – softmax"):
        assert section.count(f"\n| digits, {name} | ") == 1


@pytest.fixture
def photographs(setting, tmp_path, monkeypatch) -> Setting:
    """Two pictures and a text; a small net in place of the pre-trained one."""
    image = pytest.importorskip("PIL.Image")
    for name, seed in (("b.png", 1), ("a.JPEG", 2)):
        pixels = torch.randint(0, 256, (40, 48, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
        image.fromarray(pixels.numpy()).save(tmp_path / name)
    (tmp_path / "classes.json").write_text("{}")
    net = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 5)).requires_grad_(False).eval()
    net[2].weight.copy_(flat_points(5, 48, seed=4))
    monkeypatch.setattr(tasks, "_classifier", lambda: net)
    monkeypatch.setattr(tasks, "NEEDED", ("PIL",))
    return Setting(setting.store, quick=True, photographs=tmp_path)


@pytest.mark.parametrize("study", [BASELINE, OUTPUT], ids=["baseline", "output"])
def test_quick_studies_of_photographs(study, photographs, monkeypatch):
    units = [unit for unit in study.measurements(photographs) if unit.key.startswith("photographs")]
    assert [unit.key for unit in units] == ["photographs a.JPEG"]  # the first by name
    section = study.section({unit.key: unit.compute() for unit in units})
    assert "| photographs, " in section and "1 of 32 × 32 pixels" in section
    monkeypatch.setattr(tasks, "NEEDED", ("no_such_package",))
    assert not any(unit.key.startswith("photographs") for unit in study.measurements(photographs))


def test_photographs_are_put_together_in_the_order_of_their_names():
    parts = {f"photographs {k}": planted_baseline(IG, k / 10, n=1) | {"data": "photographs"} for k in (3, 1, 2)}
    assert by_data(parts)["photographs"][IG]["pairs"]["black – white"]["rank"] == [0.1, 0.2, 0.3]
