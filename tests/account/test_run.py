"""Run: seeds and progress display."""

import builtins

import pytest
import torch

import leastpath as lp


@pytest.mark.parametrize("draw", ["noise", "uniform"])
def test_same_seed_same_numbers_and_no_global_state(draw):
    like, before = torch.zeros(1), torch.get_rng_state()
    numbers = [getattr(lp.Run(seed=seed), draw)((50,), like, n) for seed, n in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert torch.equal(numbers[0], numbers[1])
    assert not torch.equal(numbers[0], numbers[2]) and not torch.equal(numbers[0], numbers[3])
    assert torch.equal(before, torch.get_rng_state())


def test_numbers_are_in_the_dtype_asked_for():
    assert lp.Run().noise((3,), torch.zeros(1, dtype=torch.float64)).dtype == torch.float64
    uniform = lp.Run().uniform((1000,), torch.zeros(1))
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(float(lp.Run().noise((10_000,), torch.zeros(1)).std()) - 1) < 0.05


def test_silent_unless_asked(capsys):
    with lp.Run().bar("walking", 3) as bar:
        bar.advance(2, "note")
    assert capsys.readouterr() == ("", "")


def test_one_line_where_rich_is_absent(monkeypatch, capsys):
    real = builtins.__import__
    monkeypatch.setattr(
        builtins, "__import__",
        lambda name, *rest: (_ for _ in ()).throw(ImportError(name)) if name.startswith("rich") else real(name, *rest),
    )  # fmt: skip
    with lp.Run(progress=True).bar("walking", 4) as bar:
        bar.advance(1, "slowly")
        bar.advance(3)
    shown = capsys.readouterr().err
    assert "walking  25% slowly" in shown and "walking 100%" in shown and shown.endswith("\n")


def test_progress_of_attribute_ends_at_all(capsys):
    pytest.importorskip("rich")
    lp.attribute(lp.Score(lambda x: x.prod(1)), torch.rand(3, 2), method=lp.StraightLine(), progress=True)
    assert "100%" in capsys.readouterr().out


def test_budget_is_that_of_the_run():
    score = lp.Score(lambda x: x.prod(1)).bind(torch.ones(2, 3))
    assert lp.Run(max_gradients=60, reserved=50).budget(score).left().tolist() == [10, 10]
    assert not lp.Run(reserved=50).budget(score).limited


def test_bars_are_shown_by_a_function_of_ones_own_in_its_thread_only():
    import threading

    from leastpath.account.run import shown_by

    seen, elsewhere = [], []
    with shown_by(lambda what, share: seen.append((what, share))):
        with lp.Run().bar("solving", 2) as bar:
            bar.advance()
            bar.advance(5)

        def other():
            with lp.Run().bar("other", 2) as bar:
                elsewhere.append(type(bar).__name__)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [("solving", 0.0), ("solving", 0.5), ("solving", 1.0)]
    assert elsewhere == ["Bar"]
    with lp.Run().bar("after", 1) as bar:
        bar.advance()
    assert len(seen) == 3
