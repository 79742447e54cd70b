"""What holds for every method of the table, besides what tests/invariants asks of everything that explains."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, cnn, fast_method, flat_points, mlp
from leastpath.evaluation import compare
from leastpath.methods import METHODS, Method, register

NAMES = [name for name in METHODS if name in METHODS.built_in]

NOISY = ["smooth_grad", "smooth_grad_squared", "var_grad"]  # in units of the range of each tensor
NEEDS_POINTS = [name for name in NAMES if "points" in METHODS[name].defaults]
IMAGES_ONLY = ["blur_ig", "windows_in_context", *(name for name in NAMES if "_cam" in name)]
VECTORS = [name for name in NAMES if name not in IMAGES_ONLY]
PATHLESS = [name for name in VECTORS if METHODS[name].role in ("peer", "floor")]
FIND_THEIR_REFERENCE = [name for name in VECTORS if not METHODS[name].takes_baselines] + ["ig2"]
TAKE_BASELINES = [name for name in VECTORS if METHODS[name].takes_baselines]


def fast(name: str, features: int = 4) -> Method:
    return fast_method(name, flat_points(40, features, seed=3))


def scored(dtype: torch.dtype = torch.float32) -> lp.Score:
    return lp.Score(mlp().to(dtype), torch.tensor([0, 2, 1]), "log_softmax")


@pytest.mark.parametrize("name", VECTORS)
def test_fields_have_the_shapes_and_dtypes_they_promise(name):
    x = flat_points(3, 4, 1)
    result = fast(name)(scored(), x)
    assert result.values.shape == x.shape and result.values.dtype == x.dtype
    for field in ("completeness_gap", "cancellation", "score_change", "length", "certificate", "length_ratio"):
        assert getattr(result, field).shape == (3,)
    change = scored()(x) - scored()(torch.zeros_like(x))
    if name in FIND_THEIR_REFERENCE:
        change = result.score_change
    torch.testing.assert_close(result.score_change, change)
    torch.testing.assert_close(result.completeness_gap, result.values.sum(1) - change, atol=1e-5, rtol=0)
    torch.testing.assert_close(result.cancellation, result.values.abs().sum(1) - change.abs(), atol=1e-5, rtol=0)
    assert len(result.status) == 3 and all(status.value for status in result.status)
    assert result.n_gradients.dtype == result.n_forwards.dtype == torch.int64


@pytest.mark.parametrize("name", PATHLESS)
def test_without_a_path_there_are_no_lengths_and_no_certificate(name):
    result = fast(name)(scored(), flat_points(3, 4, 1))
    assert result.path is None and result.metric == "none"
    for field in ("length", "length_error", "length_ratio", "certificate", "attribution_error"):
        assert getattr(result, field).isnan().all()


@pytest.mark.parametrize("name", VECTORS)
def test_costs_are_what_a_counting_model_sees(name):
    if name in ("deep_lift", "untrained"):
        pytest.skip("needs a module: counted in test_captum_peers and test_controls")
    counted = Counted(mlp())
    result = fast(name)(lp.Score(counted, torch.tensor([0, 2, 1]), "log_softmax"), flat_points(3, 4, 1))
    assert int(result.n_gradients.sum()) == counted.gradient_rows
    assert int(result.n_forwards.sum()) == counted.value_rows


@pytest.mark.parametrize("name", [n for n in TAKE_BASELINES if METHODS[n].complete])
def test_a_linear_model_gets_weight_times_difference(name):
    if METHODS[name].role == "weighting":
        pytest.skip("another integrand: its closed form is in test_pieces")
    model = nn.Linear(4, 2).double().eval()
    x, baselines = flat_points(3, 4, 1, torch.float64), flat_points(3, 4, 2, torch.float64)
    result = fast(name)(lp.Score(model, 1), x, baselines)
    expected = model.weight[1].detach() * (x - baselines)
    # Captum solves Kernel SHAP's regression in float32.
    torch.testing.assert_close(result.values, expected, rtol=0, atol=1e-5 if name == "kernel_shap" else 1e-9)


@pytest.mark.parametrize(
    "name", ["random", "gradient_shap", "kernel_shap", "lime", "smooth_grad", "expected_gradients", "permutation_shap"]
)
def test_another_seed_other_values(name):
    method, x = fast(name), flat_points(3, 4, 1)
    assert not torch.equal(method(scored(), x, seed=5).values, method(scored(), x, seed=6).values)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in (*NEEDS_POINTS, "exact_shapley")])
def test_images_keep_their_shape(name):
    result = fast(name)(lp.Score(cnn(), torch.tensor([0, 2])), flat_points(2, 72, 1).view(2, 2, 6, 6))
    assert result.values.shape == (2, 2, 6, 6)


def test_a_method_with_its_own_start_says_so_and_refuses_baselines():
    own = [name for name in NAMES if not METHODS[name].takes_baselines]
    assert own == ["blur_ig", "lpi", "agi", "mfaba", "boundary_ig", "fisher_rao"]
    for name in own[1:]:
        with pytest.raises(ValueError, match=r"own start, so baselines cannot be given"):
            fast(name)(scored(), flat_points(3, 4, 1), 0.0)
    with pytest.raises(ValueError, match="blur_ig chooses its own start"):
        METHODS["blur_ig"](lp.Score(cnn(), 0), flat_points(2, 72, 1).view(2, 2, 6, 6), 0.0)


@pytest.mark.parametrize("name", [n for n in VECTORS if n not in NEEDS_POINTS])
def test_tuples_keep_their_structure(name):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(5)

        def forward(self, a, b):
            return self.net(torch.cat([a, b], 1))

    x = flat_points(2, 5, 1)
    score = lp.Score(Two().eval(), torch.tensor([0, 2]))
    together = fast(name)(lp.Score(mlp(5), torch.tensor([0, 2])), x)
    parts = fast(name)(score, (x[:, :2], x[:, 2:]))
    assert [tuple(v.shape) for v in parts.values] == [(2, 2), (2, 3)]
    if name not in ("smooth_integrated_gradients", "random", *NOISY):  # whose noise is drawn for each tensor
        torch.testing.assert_close(torch.cat(parts.values, 1), together.values, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TAKE_BASELINES)
def test_several_baselines_average(name):
    x, baselines = flat_points(3, 4, 1), flat_points(6, 4, 2).view(3, 2, 4)
    result = fast(name)(scored(), x, baselines)
    change = scored()(x) - torch.stack([scored()(baselines[:, j]) for j in range(2)]).mean(0)
    assert result.values.shape == x.shape
    if name in FIND_THEIR_REFERENCE:
        change = result.score_change
    torch.testing.assert_close(result.score_change, change)
    torch.testing.assert_close(result.completeness_gap, result.values.sum(1) - change, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference"])
@pytest.mark.parametrize("name", [n for n in VECTORS if n not in NEEDS_POINTS])
def test_the_callers_mode_does_not_matter(name, mode):
    method, score, outside = fast(name), scored(), flat_points(3, 4, 1)
    with mode():
        inside = method(score, flat_points(3, 4, 1)).values
    torch.testing.assert_close(inside.clone(), method(score, outside).values)


def test_methods_survive_pickling():
    for name in NAMES:
        assert pickle.loads(pickle.dumps(METHODS[name])).name == name


def test_every_entry_is_described():
    for name, method in METHODS.items():
        assert method.name == name and method.summary.endswith(".") and method.title
        assert repr(method) == f"Method({name!r}: {method.title}, {method.role}, " + (
            "complete)" if method.complete else "not complete)"
        )
        assert name in repr(METHODS)


def test_the_page_on_methods_has_a_row_for_each():
    page = Path(__file__).parents[2] / "docs" / "methods.md"
    rows = [
        line.split("|")[1].strip(" `") for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"
    ]
    assert set(NAMES) <= set(rows)


@pytest.mark.parametrize("name", ["lime", "occlusion", "smooth_grad"])
def test_progress_is_shown_where_asked_for(name, capsys):
    fast(name)(scored(), flat_points(3, 4, 1), progress=True)
    shown = capsys.readouterr()
    assert "100%" in shown.out + shown.err


# ---- methods of a user's own -------------------------------------------------------------------------------------


@pytest.fixture
def own_table(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(METHODS, "_things", dict(METHODS._things))


def few_steps(score, inputs, baselines=None, *, n_steps=5, seed=0, progress=False):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), tolerance=None, n_steps=n_steps, seed=seed)


def test_a_function_of_ones_own_is_called_like_any_method(own_table):
    method = register(few_steps, title="Few steps", complete=True)
    assert METHODS["few_steps"] is method and list(METHODS)[-1] == "few_steps" and "Few steps" in repr(METHODS)
    assert dict(method.defaults) == {"n_steps": 5} and method.role == "peer" and method.complete
    assert METHODS["few_steps"](scored(), flat_points(3, 4, 1)).n_gradients.tolist() == [5, 5, 5]
    assert METHODS["few_steps"](scored(), flat_points(3, 4, 1), n_steps=7).n_gradients.tolist() == [7, 7, 7]
    with pytest.raises(ValueError, match="few_steps has no setting 'steps': it has n_steps"):
        METHODS["few_steps"](scored(), flat_points(3, 4, 1), steps=7)


def test_a_solver_that_chooses_its_start_takes_no_baselines(own_table):
    assert not register(lp.BlurIG(n_knots=5), "my_blur").takes_baselines


def test_a_method_with_other_settings_under_a_name_of_its_own(own_table):
    method = register(METHODS["integrated_gradients"].with_settings(tolerance=None, n_steps=4), "ig_4")
    assert method.name == method.title == "ig_4" and method.summary == METHODS["integrated_gradients"].summary
    assert METHODS["ig_4"](scored(), flat_points(3, 4, 1)).n_gradients.tolist() == [4, 4, 4]


def test_comparisons_know_a_registered_name(own_table):
    pytest.importorskip("pandas")
    register(few_steps)
    found = compare(["integrated_gradients", "few_steps"], scored(), flat_points(3, 4, 1), fail_fast=True)
    assert found.per_example.groupby("method")["gradients"].mean()["few_steps"] == 5


def test_registered_again_a_name_means_the_new_method(own_table):
    register(few_steps, "mine")
    register(METHODS["random"], "mine")
    assert METHODS["mine"].role == "floor"


@pytest.mark.parametrize(
    ("given", "name", "sentence"),
    [
        (few_steps, "lime", "'lime' is a method of leastpath itself: give yours another name"),
        (few_steps, "my:method", "'my:method' is not a method's name"),
        (lambda *given, **settings: None, None, "'<lambda>' is not a method's name"),
        (lambda score, inputs: None, "short", "cannot be called as a method (.*): define it as"),
        (lp.GuidedIG, "guided", "GuidedIG is a class: pass an instance"),
        (3, "three", "3 is not a method: pass a name of lp.METHODS, a solver"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered_says_why(own_table, given, name, sentence):
    before = list(METHODS)
    with pytest.raises(ValueError, match=sentence):
        register(given, name)
    assert list(METHODS) == before


def test_a_role_must_be_one_of_the_table(own_table):
    with pytest.raises(ValueError, match="role='best' is unknown: use one of path, weighting, peer, floor"):
        register(few_steps, role="best")


def test_a_registered_solver_is_called_like_any_method(own_table):
    """Oracle: `attribute` with the same solver. Settings change the solver's fields and the integral."""
    method = register(lp.GuidedIG(n_steps=6, fraction=0.5), "half_guided")
    x, start = flat_points(3, 4, 1), flat_points(3, 4, 2)
    solver = lp.GuidedIG(n_steps=6, fraction=0.1)
    expected = lp.attribute(scored(), x, start, method=solver, tolerance=None, n_steps=9)
    found = METHODS["half_guided"](scored(), x, start, fraction=0.1, tolerance=None, n_steps=9)
    assert torch.equal(found.values, expected.values) and method.role == "path" and method.complete


@pytest.mark.parametrize("name", ["ig2", "fisher_rao", "as_printed", "agi", "mfaba"])
def test_batch_sizes_and_loops_agree_in_single_precision(name):
    """What walks in steps must not follow rounding, which differs between batches: to 1e-5 of the largest value."""
    x, targets = flat_points(4, 4, 1), torch.tensor([0, 2, 1, 0])

    def values(rows, batch_size=None):
        score = lp.Score(mlp(), targets[rows], "log_softmax", batch_size=batch_size)
        return lp.attribute(score, x[rows], method=name, support=False).values

    every = torch.arange(4)
    whole = values(every)
    loop = torch.cat([values(every[i : i + 1]) for i in range(4)])
    for other in (loop, values(every, 1), values(every, 3), values(every.flip(0)).flip(0)):
        assert float((other - whole).abs().max()) <= 1e-5 * float(whole.abs().max())
