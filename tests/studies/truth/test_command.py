"""The whole study on a net and data made here. Oracle: a linear net, whose features are known."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import leastpath as lp
from leastpath.commands.run_folder import RunFolder
from studies.truth.candidates import CANDIDATES
from studies.truth.command import choices, named, run_truth
from studies.truth.nets import NETS, image_problem
from studies.truth.page import BEGIN, END, truth_page
from studies.truth.problem import Net, Opened, Problem
from studies.truth.references import occlusion, shapley
from studies.truth.work import Workshop, do_all, measured, on_object, pieces

SOME = {
    name: CANDIDATES[name] for name in ("random", "occlusion", "shapley", "ig", "idgi", "idgi-two", "line", "descent")
}


def tiny(name="tiny", **more):
    """A net of 6 × 6 pixels whose class is told by the first two rows."""
    opened = []

    def problem(rows):
        generator = torch.Generator().manual_seed(0)
        images = torch.rand(40, 1, 6, 6, generator=generator)[list(rows)]
        net = nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).requires_grad_(False).eval()
        net[1].weight.copy_(torch.stack([torch.zeros(36), torch.cat([torch.linspace(3, 1, 12), torch.zeros(24)])]))
        net[1].bias.copy_(torch.tensor([0.0, -10.0]))
        objects = torch.zeros(len(images), 1, 6, 6, dtype=torch.bool)
        objects[..., :2, :] = True
        targets = torch.ones(len(images)).long()
        return image_problem(net, images, targets, "log_softmax", objects=objects, groups={"patch": 2})

    def open_net(setting, data):
        opened.append(name)
        return Opened(40, problem, {"accuracy": 1.0})

    net = Net(name, name, "image", open_net, {"development": 12, "reporting": 12}, block=6, few=6, **more)
    return net, opened


def run(folder, net, candidates=SOME, **more):
    place = RunFolder.open(folder, "truth", {"quick": True, "size": 128}, resume=True)
    known = {net.name: net}
    told = run_truth(place, None, [net], candidates, methods_named=True, known=known, all_candidates=SOME, **more)
    return place, told


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    net, _ = tiny()
    return run(tmp_path_factory.mktemp("truth") / "run", net)


def test_what_decides_is_found(whole):
    found = whole[1]["summaries"]["reporting"]["tiny"]
    assert found["ig"]["n"] == 12 and found["shapley"]["n"] == 6
    assert abs(found["random"]["gain"]) < 0.15 < found["ig"]["gain"]
    assert found["ig"]["gains"].keys() == {"black", "mean", "blur", "neighbours"}
    assert found["ig"]["worst"] == min(found["ig"]["gains"].values())
    assert found["ig"]["objects"] == pytest.approx(3)  # all of Σ|A| on a third of the area
    assert found["ig"]["leave-one-out"] > 0.9 and found["ig"]["gradients"] == 50


def test_files_and_page(whole):
    place, told = whole
    page = (place.path / "truth.md").read_text()
    assert json.loads((place.path / "truth.json").read_text()) == json.loads(json.dumps(told))
    assert "## tiny" in page and "| IG | 12 |" in page and "## Objects" in page
    assert (place.figures / "truth_heat.png").is_file()
    assert (place.path / "truth.csv").read_text().startswith("net,half,method,row,gain black")


def test_nothing_is_done_twice(whole, tmp_path):
    units = {file: file.stat().st_mtime_ns for file in (whole[0].store.folder / "units").iterdir()}
    run(whole[0].path, tiny()[0])
    again = {file: file.stat().st_mtime_ns for file in (whole[0].store.folder / "units").iterdir()}
    assert [f.name for f in again if units.get(f) != again[f] and not f.name.startswith("quality")] == []


def test_an_interrupted_run_goes_on(tmp_path, whole):
    net, _ = tiny()
    place = RunFolder.open(tmp_path / "run", "truth", {"quick": True, "size": 128}, resume=True)
    shop = Workshop(place.store, None)
    work = list(pieces([net], list(SOME.values()), named=True))
    for piece in work[:5]:
        shop.do(piece)
    left = [piece for piece in work if not shop.is_done(piece)]
    assert len(left) == len(work) - 5
    assert do_all(shop, work, minutes=0.0) == left  # no time: nothing more is done
    told = run(tmp_path / "run", net)[1]
    strip = ("seconds",)
    for half in ("development", "reporting"):
        for method, of in whole[1]["summaries"][half]["tiny"].items():
            same = told["summaries"][half]["tiny"][method]
            assert {k: v for k, v in same.items() if k not in strip} == {k: v for k, v in of.items() if k not in strip}


def test_other_settings_of_a_candidate_are_computed_anew():
    assert CANDIDATES["ig"].digest != replace(CANDIDATES["ig"], tolerance=0.1).digest
    assert CANDIDATES["ig"].digest == replace(CANDIDATES["ig"], title="other words", main=False).digest
    assert len({candidate.digest for candidate in CANDIDATES.values()}) == len(CANDIDATES)


def test_halves_share_no_example_and_new_nets_are_only_reported():
    net, fresh = tiny()[0], tiny("fresh", reporting_only=True)[0]
    rows = {half: {r for p in pieces([net], [SOME["ig"]]) if p.half == half for r in p.rows} for half in net.examples}
    assert not rows["development"] & rows["reporting"] and len(rows["reporting"]) == 12
    assert {piece.half for piece in pieces([fresh], [SOME["ig"]])} == {"reporting"}
    # What is not a main row is only looked at in development, unless it is named.
    assert {piece.half for piece in pieces([net], [SOME["line"]])} == {"development"}


def test_the_rule_is_applied_for_each_kind(whole):
    found = whole[1]["choices"]
    assert set(found) == {"image"} and "shapley" not in found["image"]["harms"]
    assert found["image"]["name"] in (*SOME,)


def test_missing_data_is_said_and_the_rest_goes_on(tmp_path, capsys):
    place = RunFolder.open(tmp_path / "run", "truth", {"quick": True, "size": 128})
    nets = [NETS["voc"], NETS["text"], NETS["adult"], NETS["cifar"], tiny()[0]]
    known = {net.name: net for net in nets}
    told = run_truth(place, tmp_path, nets, {"ig": CANDIDATES["ig"]}, known=known, all_candidates=SOME)
    said = capsys.readouterr().out
    assert "VOC, head on EfficientNet-lite0 is left out: needs VOCdevkit in the folder of --data" in said
    assert said.count("is left out") == 4 and list(told["nets"]) == ["tiny"]


def test_the_summary_written_by_hand_is_kept(whole):
    page = truth_page(whole[1])
    mine = page.replace(page.partition(BEGIN)[2].partition(END)[0], "\nIt is so.\n")
    assert truth_page(whole[1], mine) == mine != page


def test_references_against_closed_forms():
    weights = torch.tensor([3.0, 0.0, -1.0])
    inputs = torch.tensor([[1.0, 2.0, 1.0], [0.5, 0.0, 2.0]])
    problem = Problem(
        lambda output: lp.Score(lambda x: x @ weights), "raw", inputs, torch.zeros(2, 1, 3), {"zero": 0.0}, None
    )
    for reference in (occlusion, shapley):
        values, change, _ = reference(problem, problem.baselines)
        torch.testing.assert_close(values, inputs * weights)
        torch.testing.assert_close(change, inputs @ weights)


def test_groups_are_removed_together_and_some_features_never():
    problem = Problem(
        lambda output: lp.Score(lambda x: x.sum(1)), "raw", torch.ones(1, 4), torch.zeros(1, 1, 4), {"zero": 0.0},
        torch.tensor([[0, 0, 1, -1]]),
    )  # fmt: skip
    values, _, _ = occlusion(problem, problem.baselines)
    assert values.tolist() == [[1.0, 1.0, 1.0, 0.0]]
    record, strengths = measured(problem, values)
    # Seven shares remove one group each, the others both.
    assert strengths.tolist() == [[2.0, 1.0]] and record["gain"]["zero"] == [pytest.approx(7 / 9, abs=1e-5)]


def test_objects():
    values = torch.zeros(2, 3, 2, 2)
    values[:, :, 0, 0] = -1.0
    masks = torch.zeros(2, 1, 2, 2, dtype=torch.bool)
    masks[0, 0, 0] = True
    assert on_object(values, masks).tolist()[0] == 2.0 and torch.isnan(on_object(values, masks)[1])


def test_names():
    with pytest.raises(ValueError, match="no net is called 'alexnet': use some of digits-mlp"):
        named(NETS, "alexnet", "net")
    assert choices([], NETS, CANDIDATES) == {}
