"""The whole study on a net and data made here. Oracle: a linear net, whose features are known."""

import json

import pytest
from tiny_truth import SOME, tiny

from leastpath.commands.run_folder import RunFolder
from studies.truth.candidates import CANDIDATES
from studies.truth.command import choices, named, run_truth
from studies.truth.nets import NETS
from studies.truth.page import BEGIN, END, truth_page
from studies.truth.work import Workshop, do_all, pieces


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
    tables = (place.path / "truth_nets.md").read_text()
    assert "| Small pictures |" in page and "## tiny" in tables and "| IG | 12 |" in tables and "## Objects" in tables
    assert (place.figures / "truth_heat.png").is_file()
    assert (place.path / "truth.csv").read_text().startswith("net,half,method,row,digest,gain black")


def test_nothing_is_done_twice(whole, tmp_path):
    units = {file: file.stat().st_mtime_ns for file in (whole[0].store.folder / "units").iterdir()}
    run(whole[0].path, tiny()[0])
    again = {file: file.stat().st_mtime_ns for file in (whole[0].store.folder / "units").iterdir()}
    assert [f.name for f in again if units.get(f) != again[f] and not f.name.startswith("quality")] == []


def test_an_interrupted_run_goes_on(tmp_path, whole):
    """Oracle: the whole run. Three methods, which do not know of each other."""
    net, _ = tiny()
    few = {name: SOME[name] for name in ("random", "occlusion", "ig")}
    place = RunFolder.open(tmp_path / "run", "truth", {"quick": True, "size": 128}, resume=True)
    shop = Workshop(place.store, None)
    work = list(pieces([net], list(few.values()), named=True))
    for piece in work[:5]:
        shop.do(piece)
    left = [piece for piece in work if not shop.is_done(piece)]
    assert len(left) == len(work) - 5
    assert do_all(shop, work, minutes=0.0) == left  # no time: nothing more is done
    told = run(tmp_path / "run", net, few)[1]
    assert told["summaries"]["reporting"]["tiny"].keys() == few.keys()
    strip = ("seconds",)
    for half in ("development", "reporting"):
        for method, same in told["summaries"][half]["tiny"].items():
            of = whole[1]["summaries"][half]["tiny"][method]
            assert {k: v for k, v in same.items() if k not in strip} == {k: v for k, v in of.items() if k not in strip}


def test_the_rule_is_applied_for_each_sort(whole):
    found = whole[1]["choices"]
    assert set(found) == {"digits"} and "shapley" not in found["digits"]["harms"]
    assert found["digits"]["name"] in (*SOME,)


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


def test_names():
    with pytest.raises(ValueError, match="no net is called 'alexnet': use some of digits-mlp"):
        named(NETS, "alexnet", "net")
    assert choices([], NETS, CANDIDATES) == {}


def test_another_machine_goes_on_from_the_kept_rows(tmp_path, whole):
    """Oracle: the whole run, of which a first run did half of the methods and another folder the rest."""
    net, _ = tiny()
    few = {name: SOME[name] for name in ("random", "ig")}
    run(tmp_path / "first", net, {"random": few["random"]}, save=tmp_path / "docs")
    place, told = run(tmp_path / "second", net, few, save=tmp_path / "docs")
    assert not [file for file in (place.store.folder / "units").iterdir() if " random " in file.name]
    found, wanted = (of["summaries"]["reporting"]["tiny"] for of in (told, whole[1]))
    assert {name: found[name]["gain"] for name in few} == pytest.approx(
        {name: wanted[name]["gain"] for name in few}, abs=1e-4
    )
