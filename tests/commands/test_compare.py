"""leastpath compare: from files to a page and tables; the numbers are those of compare() called directly."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from helpers import Interrupting
from leastpath.commands import cli, compare as command
from leastpath.commands.case import image_case, join_cases, table_case
from leastpath.commands.compare import choose_measures, offered_measures, run_compare
from leastpath.commands.files import picture_files, read_table
from leastpath.commands.model_files import load_model
from leastpath.commands.options import CompareOptions
from leastpath.evaluation import MEASURES, FineTunedFidelity, compare
from leastpath.evaluation.measure import Measure
from leastpath.methods import METHODS

CHEAP = {"methods": "random,input_x_gradient", "measures": "deletion,symmetric_relevance_gain", "controls": False}


class PictureNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 4, 5, stride=4), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5)
        )


class RowNet(nn.Sequential):
    def __init__(self, classes=2):
        super().__init__(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, classes))


def regression():
    torch.manual_seed(2)
    return nn.Linear(3, 1)


def plain_function():
    return lambda x: x.sum(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("compare")
    (place / "pictures").mkdir()
    draw = np.random.default_rng(0)
    for name in ("a.png", "b.PNG", "c.bmp"):
        Image.fromarray(draw.integers(0, 255, (24, 20, 3)).astype(np.uint8)).save(place / "pictures" / name)
    (place / "pictures" / "notes.txt").write_text("not a picture")
    table = pd.DataFrame(draw.normal(size=(6, 3)).round(3), columns=["age", "hours", "weight"])
    table.loc[1, "hours"] = np.nan
    table["name"] = "somebody"
    table.to_csv(place / "table.csv", index=False)
    torch.manual_seed(0)
    save_file(PictureNet().state_dict(), place / "pictures.safetensors")
    save_file(RowNet().state_dict(), place / "rows.safetensors")
    return place


def of_pictures(folder, out, **more):
    given = {"model": folder / "pictures.safetensors", "model_class": f"{__name__}:PictureNet", "size": 16}
    return run_compare(CompareOptions(source=folder / "pictures", out=out, **(CHEAP | given | more)))


def of_rows(folder, out, **more):
    given = {"model": folder / "rows.safetensors", "model_class": f"{__name__}:RowNet", "drop": ["name"]}
    return run_compare(CompareOptions(source=folder / "table.csv", out=out, **(CHEAP | given | more)))


def test_pictures_against_compare_called_directly(folder, tmp_path, capsys):
    run = of_pictures(folder, tmp_path / "out")
    model = load_model(folder / "pictures.safetensors", f"{__name__}:PictureNet")
    each = [image_case(file, model, size=16) for file in picture_files(folder / "pictures")]
    case = join_cases(each)
    found = compare(
        ["random", "input_x_gradient"], case.score, case.inputs, case.baselines,
        choose_measures(CHEAP["measures"], "image", "baseline"), names=["a.png", "b.PNG", "c.bmp"],
    )  # fmt: skip
    written = pd.read_csv(run.path / "results.csv")
    for measure in ("deletion", "symmetric_relevance_gain"):
        assert np.allclose(written[measure], found.per_example[measure])
    assert written["name"].tolist() == ["a.png", "b.PNG", "c.bmp"] * 2
    means = pd.read_csv(run.path / "table.csv", index_col="method")["deletion mean"]
    assert np.allclose(means, found.table()["deletion", "mean"])
    page = (run.path / "report.html").read_text()
    assert "input_x_gradient" in page and "Comparison of attribution methods" in page
    assert "Inputs: pictures, 16 pixels. Explained: logit of the model's first class, from black." in page
    assert "report.html" in capsys.readouterr().out


def test_rows_of_a_table(folder, tmp_path):
    run = of_rows(folder, tmp_path / "out", limit=3, baseline="mean")
    assert pd.read_csv(run.path / "results.csv")["name"].unique().tolist() == [
        "row 0",
        "row 1",
        "row 2",
    ]  # also where a cell is empty


def test_controls_stand_below_unless_they_are_not_wanted(folder, tmp_path):
    run = of_rows(folder, tmp_path / "out", limit=2, measures="cancellation", controls=CompareOptions.controls)
    rows = pd.read_csv(run.path / "table.csv")["method"].tolist()
    assert rows == ["input_x_gradient", "random", "input_alone", "untrained", "other_class"]
    assert "supported" in (run.path / "report.html").read_text()


def test_factory_and_one_output(folder, tmp_path):
    run = of_rows(folder, tmp_path / "out", model=None, model_class=None, factory=f"{__name__}:regression", limit=2)
    assert pd.read_csv(run.path / "results.csv")["failure"].isna().all()
    assert json.loads((run.path / "config.json").read_text())["factory"] == f"{__name__}:regression"


def test_the_ceiling_is_a_row_that_no_method_is_above(folder, tmp_path):
    """Oracle: of three columns the search tries all orders, so its deletion area is the smallest there is."""
    methods = "random,integrated_gradients,near_optimal_removal"
    run = of_rows(folder, tmp_path / "out", methods=methods, measures="deletion")
    areas = pd.read_csv(run.path / "results.csv").pivot(index="name", columns="method", values="deletion")
    assert (areas["near_optimal_removal"] <= areas.min(axis=1) + 1e-6).all()


def test_the_ceiling_on_pictures_searches_patches(folder, tmp_path):
    run = of_pictures(folder, tmp_path / "out", methods="random,near_optimal_removal", measures="deletion", limit=1)
    found = pd.read_csv(run.path / "results.csv").set_index("method")
    assert found.loc["near_optimal_removal", "deletion"] < found.loc["random", "deletion"]
    (ceiling,) = command.choose_methods("near_optimal_removal", "image", "mean", 224).values()
    assert ceiling.groups.unique().numel() == 64


def test_a_judge_with_other_weights_against_the_measure_called_directly(folder, tmp_path):
    torch.manual_seed(5)
    judge = RowNet().eval()
    save_file(judge.state_dict(), folder / "judge.safetensors")
    given = {"measures": "fine_tuned_fidelity", "methods": "input_x_gradient", "fill": "mean"}
    run = of_rows(folder, tmp_path / "out", judge=folder / "judge.safetensors", **given)
    model = load_model(folder / "rows.safetensors", f"{__name__}:RowNet")
    table = read_table(folder / "table.csv", ["name"])
    case = join_cases([table_case(table, row, model, baseline="mean") for row in range(6)])
    found = compare(
        ["input_x_gradient"], case.score, case.inputs, case.baselines,
        [FineTunedFidelity(judge, fill="mean")],
    )  # fmt: skip
    written = pd.read_csv(run.path / "results.csv")["fine_tuned_fidelity"]
    assert np.allclose(written, found.per_example["fine_tuned_fidelity"])
    with pytest.raises(ValueError, match=r"holds another run: .*judge"):
        of_rows(folder, tmp_path / "out", judge=folder / "rows.safetensors", resume=True, **given)


def test_a_judge_for_the_model_of_a_factory(folder, tmp_path):
    save_file(nn.Linear(3, 1).state_dict(), tmp_path / "judge.safetensors")
    given = {"model": None, "model_class": None, "factory": f"{__name__}:regression", "limit": 2}
    given |= {"measures": "fine_tuned_fidelity", "methods": "random", "judge": tmp_path / "judge.safetensors"}
    run = of_rows(folder, tmp_path / "out", **given)
    assert pd.read_csv(run.path / "results.csv")["failure"].isna().all()
    with pytest.raises(ValueError, match="do not fit"):
        of_rows(folder, tmp_path / "other", **(given | {"judge": folder / "rows.safetensors"}))
    with pytest.raises(ValueError, match=r"makes a function, and --judge needs a torch\.nn\.Module"):
        of_rows(folder, tmp_path / "other", **(given | {"factory": f"{__name__}:plain_function"}))


def test_an_interruption_keeps_what_is_finished(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "leastpath.commands.model_files.load_model", lambda *_, **__: Interrupting(RowNet().eval(), at=60)
    )
    with pytest.raises(SystemExit) as left:
        of_rows(folder, tmp_path / "out")
    assert left.value.code == 130 and "go on with --resume" in capsys.readouterr().err
    assert 0 < len(pd.read_csv(tmp_path / "out" / "results.csv")) < 10


def test_time_that_is_used_up_is_said_and_resume_goes_on(folder, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        of_rows(folder, tmp_path / "out", max_seconds=1e-6)
    told = capsys.readouterr().err
    assert left.value.code == 130 and "stopped after" in told and "go on with --resume" in told
    assert len(pd.read_csv(of_rows(folder, tmp_path / "out", resume=True).path / "results.csv")) > 0


def test_resume_takes_more_methods_and_computes_nothing_twice(folder, tmp_path):
    first = of_rows(folder, tmp_path / "out")
    before = pd.read_csv(first.path / "results.csv")
    with pytest.raises(ValueError, match="continue it with --resume"):
        of_rows(folder, tmp_path / "out")
    more = {**CHEAP, "methods": "random,input_x_gradient,integrated_gradients"}
    after = pd.read_csv(of_rows(folder, tmp_path / "out", resume=True, **more).path / "results.csv")
    pd.testing.assert_frame_equal(after[: len(before)], before)  # seconds too: they were not measured again
    assert after["method"].nunique() == 3
    with pytest.raises(ValueError, match=r"holds another run: .*seed"):
        of_rows(folder, tmp_path / "out", resume=True, seed=1)


@pytest.mark.parametrize("kind", ["table", "image"])
def test_every_measure_can_be_made_and_keeps_its_name(kind):
    names = [name for name in offered_measures() if kind in MEASURES.fits(name)]
    made = choose_measures(",".join(names), kind, "mean", RowNet().eval())
    assert all(isinstance(measure, Measure) for measure in made)
    assert [measure.name for measure in made] == names


def test_list_and_help():
    for words in (["compare", "--list"], ["compare", "nowhere", "--list"]):
        page = CliRunner().invoke(cli.application(), words)
        assert page.exit_code == 0
        assert all(name in page.output for name in (*METHODS, "near_optimal_removal", *offered_measures()))
    assert "compare" in CliRunner().invoke(cli.application(), ["--help"]).output


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"methods": "magic"}, "no method is called 'magic'"),
        ({"methods": ","}, "--methods is empty"),
        ({"measures": "beauty"}, "--measures 'beauty' is unknown: use symmetric_relevance_gain"),
        ({"measures": "fine_tuned_fidelity"}, "needs a judge: pass --judge weights.safetensors"),
        ({"judge": Path("judge.pt")}, "--judge is for one measure, which is not asked for"),
        ({"judge": Path("judge.pt"), "measures": "fine_tuned_fidelity"}, "--judge judge.pt is not a file"),
        ({"measures": "noise_robustness"}, "compares pictures, and this is a table"),
        ({"fill": "blur"}, "--fill 'blur' is unknown for this input: use baseline, mean, noise"),
        ({"model": None, "model_class": None}, "a table needs its model"),
        ({"factory": "a:b"}, "pass one of the two"),
        ({"model": None, "factory": "nowhere:net"}, "--factory 'nowhere:net' cannot be imported"),
        ({"baseline": "mean,zero"}, "--fill baseline needs one baseline per input"),
    ],
)
def test_mistakes_are_sentences(folder, tmp_path, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        of_rows(folder, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()


def test_sources_that_are_none(folder, tmp_path):
    with pytest.raises(ValueError, match="neither a folder of pictures nor a table"):
        weights = folder / "rows.safetensors"
        run_compare(CompareOptions(source=weights, out=tmp_path / "out", model=weights, model_class="a:b"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no pictures"):
        picture_files(tmp_path / "empty")


def test_interruption_before_anything_is_done_writes_nothing(folder, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["leastpath.evaluation.pairs"]._Pairs, "do", stopped)
    with pytest.raises(SystemExit):
        of_rows(folder, tmp_path / "out")
    assert not (tmp_path / "out" / "report.html").exists()


def test_attacks_stay_within_the_range_of_pictures(folder):
    for kind, limits in (("image", (0.0, 1.0)), ("table", None)):
        (method,) = command.choose_methods("mfaba", kind, "baseline", 16).values()
        assert method.defaults["limits"] == limits


def test_methods_that_learn_from_data_get_what_is_not_compared(folder, tmp_path):
    """Oracle: the method called directly, with the other picture, or the other rows in their units, as its data."""
    run = of_pictures(folder, tmp_path / "pictures", methods="lpi", measures="cancellation", limit=2)
    files = picture_files(folder / "pictures")
    model = load_model(folder / "pictures.safetensors", f"{__name__}:PictureNet")
    case = join_cases([image_case(file, model, size=16) for file in files[:2]])
    data = image_case(files[2], model, size=16).inputs
    expected = METHODS["lpi"](case.score, case.inputs, points=data, represent=model).cancellation
    assert np.allclose(pd.read_csv(run.path / "results.csv")["cancellation"], expected, rtol=1e-4)

    run = of_rows(folder, tmp_path / "rows", methods="lpi,discretized_ig", measures="cancellation", limit=2)
    model = load_model(folder / "rows.safetensors", f"{__name__}:RowNet")
    table = read_table(folder / "table.csv", ["name"])
    each = [table_case(table, row, model) for row in range(6)]
    case, data = join_cases(each[:2]), torch.cat([row.inputs for row in each[2:]])
    expected = METHODS["lpi"](case.score, case.inputs, points=data).cancellation
    found = pd.read_csv(run.path / "results.csv")
    assert np.allclose(found[found["method"] == "lpi"]["cancellation"], expected, rtol=1e-4)
    assert found["failure"].isna().all()


def test_where_everything_is_compared_nothing_is_left_to_learn_from(folder, tmp_path):
    for of in (of_pictures, of_rows):
        with pytest.raises(ValueError, match=r"learns from data, and all inputs are compared: keep some .* --limit"):
            of(folder, tmp_path / "out", methods="lpi")
