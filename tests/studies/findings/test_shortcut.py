"""A planted shortcut. Oracles: closed forms, brute force, and planted cases."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from kept_records import kept_records, table_of

from leastpath._support.store import Store
from leastpath.methods import METHODS
from studies.findings.config import Setting
from studies.findings.nets import N_TRAINED, digit_images
from studies.findings.predicted import GEODESIC, IG
from studies.findings.shortcut import (
    EXPLAINERS,
    SHORTCUT,
    bordered,
    chance_above,
    mark_ranks,
    marked,
    shortcut_net,
)
from studies.findings.study import Record


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Quick, with one store for all tests: each net is trained once."""
    return Setting(Store(tmp_path_factory.mktemp("shortcut"), {}), quick=True)


@pytest.fixture(scope="module")
def shortcut(setting: Setting) -> dict[str, Record]:
    """The records of the quick study."""
    return kept_records(SHORTCUT, setting)


def test_marks_are_where_they_should_be() -> None:
    digits = digit_images()[0][:4]
    right = torch.tensor([False, True, False, True])
    images, masks = marked(digits, right)
    assert torch.equal(images[:, :, 2:-2, 2:-2], digits)
    for mask, is_right in zip(masks[:, 0], right, strict=True):
        columns = (10, 11) if is_right else (0, 1)
        assert sorted(map(tuple, mask.nonzero().tolist())) == list(itertools.product((0, 1), columns))
    assert bool((images[masks] == 1).all())
    assert torch.equal(images.masked_fill(masks, 0), bordered(digits))


def test_rank_of_the_mark_against_a_loop() -> None:
    values = torch.randn(6, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    masks = marked(torch.zeros(6, 1, 8, 8), torch.arange(6) % 2 == 1)[1]
    for value, mask, rank in zip(values[:, 0], masks[:, 0], mark_ranks(values, masks).tolist(), strict=True):
        own = float(value[mask].abs().sum())
        patches = [float(value[i : i + 2, j : j + 2].abs().sum()) for i in range(0, 12, 2) for j in range(0, 12, 2)]
        assert rank == 1 + sum(patch > own + 1e-6 for patch in patches)


def test_chance_above_against_closed_forms() -> None:
    assert chance_above([2.0, None], [1.0]) == 1
    assert chance_above([1.0], [2.0]) == 0
    assert chance_above([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 0.5
    assert math.isnan(chance_above([], [1.0]))


def test_a_planted_model_follows_the_mark_and_a_control_does_not(setting: Setting) -> None:
    kept = {}
    for marks in ("planted", "control"):
        shortcut_net(setting, marks, 0)
        kept[marks] = setting.store.read(f"net shortcut {marks} seed=0").record
    assert kept["planted"]["flips"] > 0.5
    assert kept["control"]["flips"] < 0.1
    assert kept["planted"]["right"] > kept["planted"]["wrong"] + 0.3


def test_effects_are_what_removing_the_mark_does(setting: Setting, shortcut: dict[str, Record]) -> None:
    net, digits = shortcut_net(setting, "planted", 0), digit_images()[0][N_TRAINED : N_TRAINED + 4]
    images, _ = marked(digits, torch.tensor([False, True, False, True]))
    with torch.no_grad():
        predicted = net(images).argmax(1, keepdim=True)
        effect = [net(points).log_softmax(1).gather(1, predicted)[:, 0] for points in (images, bordered(digits))]
    found = shortcut["planted, log_softmax, seed=0"]["effect"]
    assert found == pytest.approx((effect[0] - effect[1]).tolist(), rel=1e-3, abs=1e-5)


def test_straight_lines_give_nothing_to_black_pixels(shortcut: dict[str, Record]) -> None:
    for record in shortcut.values():
        assert record["methods"][IG]["black"] == [0, 0, 0, 0]


def test_every_method_has_its_rows(shortcut: dict[str, Record]) -> None:
    section = SHORTCUT.section(shortcut)
    table = table_of(section)
    assert len(table) == 2 + 2 * len(EXPLAINERS)
    assert {len(row) for row in table} == {12}
    for name in EXPLAINERS:
        assert sum(row[0].endswith(METHODS[name].title) for row in table) == 2
    assert "nan" not in section


def test_words_of_the_shortcut_follow_planted_numbers() -> None:
    def method(share: float, sums: list[float], rank: int) -> Record:
        n = len(sums)
        return {
            "share": [share] * n, "black": [0.5] * n, "rank": [rank] * n, "sum": sums, "length_ratio": [0.25] * n,
            "cancellation": [0.0] * n, "gradients": [9.0] * n, "ok": [True] * n,
        }  # fmt: skip

    effect = [float(i) for i in range(20)]
    model = {"right": 1.0, "unmarked": 0.9, "wrong": 0.1, "flips": 0.8}
    methods = {IG: method(0.4, effect, 1), GEODESIC: method(0.1, effect[::-1], 7)}
    planted = {"model": model, "effect": effect, "decides": [True] * 20, "methods": methods}
    section = SHORTCUT.section({"planted, log_softmax, seed=0": planted})
    assert "puts 0.10 of Σ|A| on the mark, clearly less than IG (0.40)" in section
    assert "first 3 patches in 0 % of the images, among IG's in 100 %" in section
    assert "clearly worse than IG's (rank correlation −1.00 against 1.00)" in section
    assert "moving the mark to the other corner changes 80 % of their predictions." in section
    assert "told from a control" not in section  # there is none
    control = planted | {"methods": {IG: method(0.0, effect, 9), GEODESIC: method(0.1, effect, 9)}}
    section = SHORTCUT.section({"planted, log_softmax, seed=0": planted, "control, log_softmax, seed=0": control})
    assert "a chance of 0.50 by Geodesic IG and 1.00 by IG" in section
    assert "highest: Integrated Gradients (1.00)" in section


def test_the_section_copes_with_missing_records(shortcut: dict[str, Record]) -> None:
    for key, record in shortcut.items():
        assert SHORTCUT.section({key: record})
