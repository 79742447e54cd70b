"""A run on a few points: interrupted, resumed, joined by other methods; nothing is computed twice."""

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch
from tiny_moons import TINY

from helpers import Interrupting
from leastpath._support.store import Store
from studies.moons import experiment as moons
from studies.moons.experiment import run_moons
from studies.moons.results import MethodOnNet, net_of
from studies.moons.table import method_results, summary
from studies.moons.training import Moons, new_net


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
    monkeypatch.setattr(moons, "write_report", lambda *_: None)
    again = run_moons(tmp_path / "run", TINY, resume=True, jobs=1)
    assert first + len(done) == 3 * 4 + 3  # methods × nets, and three maps: none computed twice
    assert _without_times(summary(again.store, TINY)) == _without_times(summary(run.store, TINY))


@pytest.mark.parametrize("method", ["guided_ig", "geodesic_graph"])
def test_half_a_result_is_not_kept(tmp_path, monkeypatch, method):
    unit, store = MethodOnNet(method, Moons(0.15, 12)), Store(tmp_path, {})
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
    monkeypatch.setattr(moons, "write_report", lambda *_: None)
    more = replace(TINY, methods=(*TINY.methods, "occlusion"))
    again = run_moons(run.path, more, resume=True, jobs=1)
    assert [r.method for r in method_results(again.store, more)] == [*more.methods, "ideal"]


def test_another_configuration_is_refused(run):
    with pytest.raises(ValueError, match="points is 60 there and 61 here"):
        run_moons(run.path, replace(TINY, points=61), resume=True)


def _without_times(found):
    return {
        name: {k: v for k, v in values.items() if k != "seconds_a_net"} for name, values in found["methods"].items()
    }
