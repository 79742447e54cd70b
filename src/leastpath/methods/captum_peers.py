"""The classic methods, called from Captum and not rewritten.

Captum sees a function of points and row numbers. The score behind it knows the target and the extra arguments of each
row, counts what is run, and joins tuples into one space. So every method explains exactly the score's scalar.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import Count, NotNegative
from leastpath._support.optional import import_optional
from leastpath._support.rows import flat_rows
from leastpath._support.threads import ONE_AT_A_TIME, own_draws
from leastpath.features.groups import SUPERPIXELS, Groups, kind_of_shape, share_evenly
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.shapley import RowGroups
from leastpath.score.calls import Output
from leastpath.score.derivatives import differentiable_values
from leastpath.score.score import BoundScore

HOOKED = ("input", "output", "input_ref", "output_ref")  # what DeepLift writes on modules while it runs

INCOMPLETE = 0.01  # of the change of score: what DeepLift may miss without a note in the status


def import_captum(method: str) -> Any:
    """`captum.attr`, or an error that says how to get it."""
    return import_optional("captum.attr", f"{method} is Captum's", "captum")


def _forward_of(problem: Problem) -> Callable[..., Tensor]:
    """The score as what Captum calls: (points, rows) -> (n,)."""
    return partial(differentiable_values, problem.bound)


@method("Input × Gradient", "The input times the gradient at the input.", extra="captum", unitless=True, cost=(1, 1))
def input_x_gradient(problem: Problem) -> Explained:
    """Input × gradient: xᵢ ∂ᵢf(x). One gradient per example."""
    peer = import_captum("input_x_gradient").InputXGradient(_forward_of(problem))
    return Explained(explain_chunks(problem, lambda x, _, rows: peer.attribute(x, additional_forward_args=(rows,))))


@method("Saliency", "The size of the gradient at the input.", extra="captum", cost=(1, 1))
def saliency(problem: Problem) -> Explained:
    """Saliency: |∂ᵢf(x)|. One gradient per example."""
    peer = import_captum("saliency").Saliency(_forward_of(problem))
    return Explained(explain_chunks(problem, lambda x, _, rows: peer.attribute(x, additional_forward_args=(rows,))))


@method(
    "Gradient SHAP", "Gradients at random points between input and baselines, averaged.", extra="captum",
    unitless=True, cost=(50, 0),
)  # fmt: skip
def gradient_shap(problem: Problem, *, n_samples: Count = 50, noise: NotNegative = 0.0) -> Explained:
    """Gradient SHAP: the mean of (x − x̄)ᵢ ∂ᵢf at random points between x and a random one of its baselines.

    It draws from several baselines per example, (batch, m, *features). The draws are the same for every example.

    Args:
        n_samples: gradients per example.
        noise: standard deviation of normal noise added to the input, in its units.
    """
    peer = import_captum("gradient_shap").GradientShap(_forward_of(problem))

    def one(row: int) -> Tensor:
        drawn = []
        most, x, several = problem.bound.batch_size, problem.end[row : row + 1], problem.start[row : row + problem.m]
        for n in (min(most, n_samples - done) for done in range(0, n_samples, most)):
            settings = {"stdevs": float(noise), "additional_forward_args": (torch.tensor([row]),)}
            drawn.append(peer.attribute(x, several, n_samples=n, **settings) * n / n_samples)
        return torch.stack(drawn).sum(0)

    values = _explain_one_by_one(problem, one, step=problem.m).repeat_interleave(problem.m, 0)
    return Explained(values, {"n_samples": n_samples}, uses_all_baselines=True)


@method(
    "DeepLift", "Secants for gradients at activations (rescale rule).", complete=True, extra="captum",
    unitless=True, cost=(2, 1),
)  # fmt: skip
def deep_lift(problem: Problem) -> Explained:
    """DeepLift with the rescale rule. Two rows per example, run with gradient.

    Complete where every non-linear step is a module that Captum has a rule for (ReLU, Tanh, Sigmoid, max pooling, …),
    used once. For everything else (ReLU6, GELU, functions, the softmax of the score's output) the gradient at the input
    is used, and the status says by how much the sum misses the change of score.
    """
    captum, score = import_captum("deep_lift"), problem.bound.score
    model = score.model
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"deep_lift rewrites the backward pass of modules, and the model is a plain {type(model).__name__}: "
            "pass an nn.Module, Score(module, …), or use another method"
        )
    hooked = problem.bound.on_private_copy()  # other threads may run the model while Captum's hooks are on it
    peer = captum.DeepLift(_ScalarModule(hooked))

    def chunk(x: Tensor, start: Tensor, rows: Tensor) -> Tensor:
        with ONE_AT_A_TIME, _clear_leftovers(hooked.score.model):
            return peer.attribute(x.clone(), start.clone(), additional_forward_args=(rows,))

    values = explain_chunks(problem, chunk, rows_each=2)
    return Explained(values, remarks=_remark_on_gaps(values, problem.change, _find_unruled(score.output, model)))


def _surrogate_cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    """As many coalitions as about 50 superpixels, or single features, are given."""
    n = SUPERPIXELS if kind_of_shape(shape) == "image" else math.prod(shape)
    return 0, settings["n_samples"] or max(50, 10 * n)


@method(
    "Kernel SHAP", "Shapley values of groups of features, by regression.", complete=True, extra="captum",
    unitless=True, cost=_surrogate_cost,
)  # fmt: skip
def kernel_shap(problem: Problem, *, n_samples: Count | None = None, groups: Groups = None) -> Explained:
    """Kernel SHAP: Shapley values of groups of features, by weighted regression on random coalitions.

    An absent group is set to its baseline. Coalitions are the same for every example.

    Args:
        n_samples: coalitions per example, one forward each. None: 10 per group, at least 50.
        groups: what is present or absent together: a whole number of superpixels, a word or integer labels (see
            `features.groups.label_groups`). None: about 50 superpixels of an image with at least 8 pixels per side,
            tokens, time steps, or each feature by itself. The value of a group is shared evenly by its features, so
            that values still add up to the change of score.
    """
    peer = import_captum("kernel_shap").KernelShap(_forward_of(problem))
    return _fit_surrogate(problem, lambda row: peer, n_samples, groups)


@method("LIME", "A sparse linear model of the score around the input.", extra="captum", cost=_surrogate_cost)
def lime(
    problem: Problem, *, n_samples: Count | None = None, groups: Groups = None, alpha: NotNegative = 0.01
) -> Explained:
    """LIME: a sparse linear model of the score on random coalitions, weighted by how much of the input is present.

    Args:
        n_samples: as for `kernel_shap`.
        groups: as for `kernel_shap`.
        alpha: the penalty of the lasso, in units of the example's |f(x) − f(x̄)|: a score twice as large gets
            attributions twice as large.
    """
    captum = import_captum("lime")
    from captum._utils.models.linear_model import SkLearnLasso

    def peer_of(row: int) -> Any:
        penalty = alpha * float(problem.change[row].abs())
        return captum.Lime(_forward_of(problem), SkLearnLasso(alpha=max(penalty, 1e-12)), _likeness)

    return _fit_surrogate(problem, peer_of, n_samples, groups)


def _likeness(_input: Tensor, _perturbed: Tensor, present: Tensor, **_: Any) -> float:
    """exp(−d²/2), d the cosine distance of a coalition (1, groups) from all groups: no feature's unit plays a part."""
    share = float(present.float().mean())
    return math.exp(-((1 - math.sqrt(share)) ** 2) / 2)


def _fit_surrogate(problem: Problem, peer_of: Callable[[int], Any], n_samples: int | None, groups: Groups) -> Explained:
    """Fit a linear model to the score of random coalitions, for each row by itself."""
    grouped = RowGroups.of(problem, groups)
    budgets = [n_samples or max(50, 10 * k) for k in grouped.counts.tolist()]

    def one(row: int) -> Tensor:
        members = grouped.members[row : row + 1]
        if int(grouped.counts[row]) == 1:  # one group gets the whole change; Captum cannot draw coalitions of one
            return share_evenly(problem.change[row : row + 1], members)
        coefficients = peer_of(row).attribute(
            problem.end[row : row + 1], problem.start[row : row + 1],
            additional_forward_args=(torch.tensor([row]),), feature_mask=members.to(problem.end.device),
            n_samples=budgets[row],
            perturbations_per_eval=min(problem.bound.batch_size, budgets[row]), return_input_shape=False,
        )  # fmt: skip
        return share_evenly(coefficients.flatten().to(problem.change), members)

    values = _explain_one_by_one(problem, one)
    spent = torch.tensor(budgets[:: problem.m])
    found = grouped.explain(problem, values, "coalitions of {} groups of features", n_samples=spent)
    return replace(found, remarks=[f"fitted to {n} {words}" for n, words in zip(budgets, found.remarks, strict=True)])


def _explain_one_by_one(problem: Problem, explain: Callable[[int], Tensor], step: int = 1) -> Tensor:
    """`explain` of every row, or every `step`-th, each with the same draws: (rows / step, *shape)."""
    values = []
    for row in range(0, len(problem), step):
        with seed_captum(problem.seed), _hush_captum():
            values.append(explain(row).detach())
        problem.bar.advance(step)
    return torch.cat(values)


def explain_chunks(problem: Problem, explain: Callable[[Tensor, Tensor, Tensor], Tensor], rows_each: int = 1) -> Tensor:
    """`explain(end, start, rows)` of as many rows as the score's batch size allows: (rows, *shape)."""
    values = []
    for rows in torch.arange(len(problem)).split(max(1, problem.bound.batch_size // rows_each)):
        at = rows.to(problem.end.device)
        with _hush_captum():
            values.append(explain(problem.end[at], problem.start[at], rows).detach())
        problem.bar.advance(len(rows))
    return torch.cat(values)


def _find_unruled(output: Output, model: nn.Module) -> list[str]:
    """What DeepLift treats as linear though it is not, as far as it can be seen from the outside."""
    from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR

    activations = {type(m) for m in model.modules() if type(m).__module__ == "torch.nn.modules.activation"}
    found = sorted(kind.__name__ for kind in activations - set(SUPPORTED_NON_LINEAR))
    return [*found, output] if isinstance(output, str) and output != "raw" else found


def _remark_on_gaps(values: Tensor, change: Tensor, without_rule: list[str]) -> list[str]:
    """A sentence for each row (rows,) whose values do not add up, with the likely reason."""
    why = f"no rule for {', '.join(without_rule)}" if without_rule else "some step of the model has no rule"
    return [
        f"adds up to {got:.3g} where the score changed by {wanted:.3g}: {why}, whose gradient is used"
        if abs(got - wanted) > INCOMPLETE * abs(wanted) + 1e-6
        else ""
        for got, wanted in zip(flat_rows(values).sum(1).tolist(), change.tolist(), strict=True)
    ]


class _ScalarModule(nn.Module):
    """The score's scalar as a module, so that DeepLift finds the modules in it."""

    def __init__(self, bound: BoundScore) -> None:
        super().__init__()
        self.explained = bound.score.model
        self._bound = bound

    def forward(self, points: Tensor, examples: Tensor) -> Tensor:
        return differentiable_values(self._bound, points, examples)


@contextmanager
def _clear_leftovers(model: Any) -> Iterator[None]:
    """DeepLift stores activations on the modules, and leaves those that no gradient came back through."""
    before = {module: set(vars(module)) for module in model.modules()}
    try:
        yield
    finally:
        for module, names in before.items():
            for name in set(HOOKED) & set(vars(module)) - names:
                delattr(module, name)


@contextmanager
def seed_captum(seed: int) -> Iterator[None]:
    """Captum draws from the global generators of torch and NumPy: seeded inside, as they were outside.

    Torch's functions are given a generator of their own. NumPy's cannot be, so one thread at a time gets here.
    """
    with ONE_AT_A_TIME, own_draws(seed):
        state = np.random.get_state()  # noqa: NPY002 - Captum's generator, not ours
        try:
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002


@contextmanager
def _hush_captum() -> Iterator[None]:
    """Without Captum's warnings about its own hooks. Warnings of the model pass."""
    with warnings.catch_warnings():
        for message in ("Setting forward, backward hooks", "Input Tensor \\d+ did not already require gradients"):
            warnings.filterwarnings("ignore", message)
        yield
