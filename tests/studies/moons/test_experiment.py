"""The half-moons experiment on a few points: training against a plain loop, the table against its definition."""

import json
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch

import leastpath as lp
from helpers import Interrupting
from leastpath._support.store import Store
from leastpath.evaluation.purity import purity_of
from leastpath.methods import METHODS
from studies.moons import experiment as moons
from studies.moons.experiment import BASELINE, PAPER, MoonsConfig, Unit, explained, net_of, run_moons
from studies.moons.table import method_results, summary, table_1
from studies.moons.training import Moons, loaded_net, new_net, train_together

TINY = MoonsConfig(
    noises=(0.05, 0.35), seeds=(12, 24), methods=("integrated_gradients", "random", "geodesic_variational"), epochs=1,
    points=60, costly_points=20, variational_iterations=3, variational_knots=3, figure_noise=0.35,
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_moons(tmp_path_factory.mktemp("moons") / "run", TINY, jobs=1)


def test_training_together_equals_a_plain_loop():
    tasks = [Moons(0.15, 12), Moons(0.3, 24)]
    together = train_together(tasks, epochs=1)
    for task, weights in zip(tasks, together, strict=True):
        net, (points, labels) = new_net(task.seed), task.train
        adam = torch.optim.Adam(net.parameters(), 1e-3)
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(task.seed))
        for batch in order.split(32):
            adam.zero_grad()
            torch.nn.functional.nll_loss(net(points[batch]).log_softmax(1), labels[batch]).backward()
            adam.step()
        for name, value in net.state_dict().items():
            torch.testing.assert_close(weights[name], value, rtol=1e-4, atol=1e-5)


def test_new_net_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    new_net(12)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_paper_s_experiment_by_default():
    config = MoonsConfig()
    assert len(config.nets) == 65 and config.noises[0] == 0.05 and config.noises[-1] == 0.65
    assert config.methods == tuple(PAPER) and set(PAPER) <= set(METHODS)
    assert config.points_of("kernel_shap") >= 500 and config.points_of("geodesic_graph") == 2000
    assert len(config.mapped_inputs) == 10_000
    train, test = Moons(0.15, 12).train[0], Moons(0.15, 12).test[0]
    assert len(train) == 8000 and len(test) == 2000


def test_costly_methods_get_balanced_points():
    other = torch.arange(100) % 5 == 0
    rows = replace(TINY, points=100, costly_points=20).rows_of("kernel_shap", other)
    assert len(rows.unique()) == 20 and int(other[rows].sum()) == 4  # a fifth, as of all
    assert torch.equal(TINY.rows_of("occlusion", other), torch.arange(60))


def test_units_hold_what_the_method_gives(run):
    unit = Unit("integrated_gradients", Moons(0.35, 24))
    model, inputs = net_of(run.store, unit.net), unit.net.test[0][:60]
    score = lp.Score(model, model(inputs).argmax(1), "log_softmax")
    direct = lp.attribute(score, inputs, torch.tensor([BASELINE]), solver=lp.StraightLine(), seed=24)
    kept = explained(run.store, unit)
    assert torch.equal(kept["values"], direct.values)
    torch.testing.assert_close(kept["cancellation"], direct.cancellation)


def test_table_equals_purity_computed_from_the_model(run):
    results = {result.method: result for result in method_results(run.store, TINY)}
    for j, noise in enumerate(TINY.noises):
        net = Moons(noise, 24)
        model, inputs, baseline = net_of(run.store, net), net.test[0][:60], torch.tensor([BASELINE])
        score = lp.Score(model, model(inputs).argmax(1), "log_softmax")
        result = lp.attribute(score, inputs, baseline, solver=lp.StraightLine(), seed=24)
        expected = purity_of(score, inputs, baseline, result)
        assert float(results["integrated_gradients"].purity[1, j]) == expected
        rows = TINY.rows_of("geodesic_variational", run.store.read(f"net {net.key}").arrays["other_class"])
        fewer = lp.Score(model, model(inputs[rows]).argmax(1), "log_softmax")
        line = lp.attribute(fewer, inputs[rows], baseline, solver=lp.StraightLine(), seed=24)
        expected = purity_of(fewer, inputs[rows], baseline, line)
        assert float(results["geodesic_variational"].reference[1, j]) == expected  # the same points
    areas = results["random"].purity.mean(1) * (TINY.noises[1] - TINY.noises[0])  # a trapezoid of two points
    area, error = results["random"].area(TINY.noises)
    assert area == pytest.approx(float(areas.mean())) and error == pytest.approx(float(areas.std() / 2**0.5))


def test_table_says_on_how_many_points(run):
    table = table_1(run.store, TINY).set_index("method")
    assert table.loc[METHODS["geodesic_variational"].title, "points"] == "20"
    assert table.loc[METHODS["integrated_gradients"].title, "paper"] == "0.487"


def test_folder_holds_report_table_and_figures(run):
    names = {p.stem for p in run.figures.glob("*.png")}
    assert names == {"maps", "output_difference", "purity", "variational_paths", "enhanced_ig", "graph"}
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 6 and "http" not in page.split("</style>")[1]
    assert (run.path / "table.md").read_text(encoding="utf-8").count("\n") == 2 + len(TINY.methods) + 1
    assert set(json.loads((run.path / "summary.json").read_text())["methods"]) == {*TINY.methods, "ideal"}


def test_saved_for_documentation(run, tmp_path):
    moons._save(run, tmp_path / "docs")
    names = {p.name for p in (tmp_path / "docs").iterdir()}
    assert {"moons_table.md", "moons_summary.json", "moons_maps.png"} <= names and len(names) == 8


def test_interrupted_and_resumed_equals_uninterrupted(run, tmp_path, monkeypatch):
    done = []
    really = moons._explain_one

    def explain(store, config, unit):
        if len(done) == 5:
            raise KeyboardInterrupt
        really(store, config, unit)
        done.append(unit)

    monkeypatch.setattr(moons, "_explain_one", explain)
    with pytest.raises(KeyboardInterrupt):
        run_moons(tmp_path / "run", TINY, jobs=1)
    first = len(done)
    done.clear()
    monkeypatch.setattr(moons, "_explain_one", lambda *work: (really(*work), done.append(work[2])))
    monkeypatch.setattr(moons, "train_together", None)  # nets are not trained again
    monkeypatch.setattr("studies.moons.report.write_report", lambda *_: None)
    again = run_moons(tmp_path / "run", TINY, resume=True, jobs=1)
    assert first + len(done) == 3 * 4 + 3  # methods × nets, and three maps: none computed twice
    assert _without_times(summary(again.store, TINY)) == _without_times(summary(run.store, TINY))


@pytest.mark.parametrize("method", ["guided_ig", "geodesic_graph"])
def test_half_a_result_is_not_kept(tmp_path, monkeypatch, method):
    unit, store = Unit(method, Moons(0.15, 12)), Store(tmp_path, {})
    arrays = {"change": torch.zeros(2000), "other_class": torch.arange(2000) % 2 == 0}
    store.write(f"net {unit.net.key}", {}, {**new_net(12).state_dict(), **arrays})
    monkeypatch.setattr(moons, "net_of", lambda *of: Interrupting(net_of(*of), at=7))
    with pytest.raises(KeyboardInterrupt):  # the solver catches Ctrl-C and returns what it has
        moons._explain_one(store, TINY, unit)
    assert unit.key not in store


def test_workers_leave_ctrl_c_to_their_parent():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=moons._worker) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN


def test_methods_can_join_a_run(run, monkeypatch):
    monkeypatch.setattr("studies.moons.report.write_report", lambda *_: None)
    more = replace(TINY, methods=(*TINY.methods, "occlusion"))
    again = run_moons(run.path, more, resume=True, jobs=1)
    assert [r.method for r in method_results(again.store, more)] == [*more.methods, "ideal"]


def test_another_configuration_is_refused(run):
    with pytest.raises(ValueError, match="points is 60 there and 61 here"):
        run_moons(run.path, replace(TINY, points=61), resume=True)


def test_loaded_net_needs_no_gradients():
    assert not any(p.requires_grad for p in loaded_net(new_net(1).state_dict()).parameters())


def _without_times(found):
    return {
        name: {k: v for k, v in values.items() if k != "seconds_a_net"} for name, values in found["methods"].items()
    }
