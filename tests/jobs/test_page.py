"""The report of a job: its numbers are the table's, its pictures the worst rows'."""

import numpy as np
import pytest
import torch

import leastpath as lp
import toy_jobs
from helpers import cnn
from leastpath import jobs
from leastpath.jobs import page as module

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    data = toy_jobs.Numbered(20, bad=(3,), unreadable=(5, 6))
    return jobs.explain(data, toy_jobs.model, out=out, target=0, shard_size=8, show=False)


def test_quantiles_and_worst_rows_are_the_tables(found):
    table = found.table(module.NEEDED)
    known = table["cancellation"].dropna()
    np.testing.assert_allclose(module._quantiles(table)["cancellation"], np.quantile(known, module.SHARES))
    worst = module._top(table, table["completeness_gap"].abs(), 3)
    by_gap = table["completeness_gap"].abs().sort_values(ascending=False, kind="stable")  # of equal ones the first
    assert worst["index"].tolist() == by_gap.index[:3].tolist()


def test_a_page_with_every_section(found, tmp_path):
    page = jobs.report(found, tmp_path / "report.html", worst=1)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    for words in ("20 rows by integrated_gradients", "Failures", "this row is unreadable"):
        assert words in page
    for kind in ("Cost", "Distributions", "Least support", "Worst by completeness", "Worst by certificate", "Slowest"):
        assert f">{kind}</h2>" in page
    assert "5, 6" in page and page.count("<img") == 1 + 5
    assert "decides nothing" not in page
    undecided = module._begin_page(found, found.table().assign(outcome="undecided"))
    assert "On 20 the test decides nothing: does the model get columns as it was trained on them?" in undecided.html()


def starved(score, inputs, baselines, seed):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), tolerance=1e-12, max_gradients=4, seed=seed)


def test_the_reasons_of_a_second_look_are_counted(tmp_path):
    data = toy_jobs.Numbered(12, bad=(3,))
    found = jobs.explain(data, toy_jobs.model, starved, tmp_path, target=0, shard_size=8, show=False)
    table = found.table()
    doubtful = table[~table["ok"] & table["failure"].isna()]
    counted = module._second_look(found)
    assert len(doubtful) and counted["rows"].sum() == len(doubtful)
    assert "A second look" in jobs.report(found, worst=1) and str(counted["rows"][0]) in jobs.report(found, worst=1)


def doubted(score, inputs, baselines, seed):
    """Tested, and cut short: the first sentence is about support, the reason for a second look is another."""
    return lp.attribute(
        score, inputs, baselines, method=lp.StraightLine(), tolerance=1e-12, max_gradients=4, support=True, seed=seed
    )


def test_support_is_shown_and_the_reason_is_what_asks_for_a_second_look(tmp_path):
    data = toy_jobs.Numbered(6)
    found = jobs.explain(data, toy_jobs.model, doubted, tmp_path, target=0, show=False)
    table, page = found.table(), jobs.report(found, worst=1)
    assert table["support"].notna().any() and ">Least support</h2>" in page and "were tested by removal" in page
    doubted_rows = table[table["reason"].notna()]
    assert len(doubted_rows) and doubted_rows["ok"].eq(False).all()
    assert table.loc[table["ok"].eq(True), "reason"].isna().all()
    assert table["status"].str.contains("before tolerance 1e-12 was reached").any()


def test_pictures_are_heat_maps_over_their_inputs(tmp_path):
    pictures = [torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    found = jobs.explain(pictures, cnn, out=tmp_path, target=1, keep="pixels", show=False)
    rows = found.table().iloc[[2, 0]]
    assert [len(ax.images) for ax in module._pictures(found, None, rows).axes] == [1, 1]
    with_inputs = module._pictures(found, jobs.source_of([p[:1] for p in pictures]), rows)
    assert [len(ax.images) for ax in with_inputs.axes] == [2, 2]
    nothing = jobs.explain(pictures, cnn, out=tmp_path / "n", target=1, keep="nothing", show=False)
    assert module._pictures(nothing, None, rows) is None


def test_an_unfinished_job_says_so(found, tmp_path):
    class None_:
        def run(self, work, shards, stop):
            return jobs.InProcess().run(work, list(shards)[:1], stop)

    half = jobs.explain(
        toy_jobs.Numbered(20), toy_jobs.model, out=tmp_path, target=0, shard_size=8, executor=None_(), show=False
    )
    assert "2 of 3 shards are missing" in jobs.report(half, worst=0)
