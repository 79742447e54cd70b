"""SmoothGrad of any method: the mean of its attributions over noisy copies of the input, by Captum's NoiseTunnel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leastpath.attribution import Attribution
from leastpath.methods.captum_peers import imported_captum, seeded
from leastpath.methods.method import Method
from leastpath.methods.pathless import Explained, Problem, pathless
from leastpath.score import Baselines, Inputs, Score
from leastpath.status import finished


def smooth(method: Method, *, name: str | None = None, title: str | None = None) -> Method:
    """SmoothGrad of a method: it is run on `n_samples` noisy copies of each input, and the attributions are averaged.

    The result has the settings of the method and two more: `n_samples`, and `noise`, the standard deviation as a share
    of the range of the input's values (max − min, for each example).

    Args:
        method: any method.
        name: of the new method; `smooth_` and the old one's by default.
        title: likewise.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.methods import METHODS, smooth
        >>> smoothed = smooth(METHODS["input_x_gradient"])
        >>> smoothed(lp.Score(lambda x: (x**2).sum(1)), torch.ones(2, 3), n_samples=4).values.shape
        torch.Size([2, 3])
    """
    return Method(
        name or f"smooth_{method.name}",
        title or f"SmoothGrad of {method.title}",
        "peer",
        f"Mean of {method.title} over noisy copies of the input.",
        complete=False,
        explain=SmoothExplainer(method),
        defaults={**method.defaults, "n_samples": 10, "noise": 0.15},
        extra="captum",
        takes_baselines=method.takes_baselines,
    )


@dataclass(frozen=True, eq=False)
class SmoothExplainer:
    """NoiseTunnel around a method of ours."""

    method: Method

    def __call__(
        self,
        score: Score,
        inputs: Inputs,
        baselines: Baselines = None,
        *,
        n_samples: int,
        noise: float,
        seed: int = 0,
        progress: bool = False,
        **settings: Any,
    ) -> Attribution:
        captum = imported_captum("smooth")
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        if n_samples < 1 or noise < 0:
            raise ValueError(f"n_samples={n_samples} must be at least 1 and noise={noise} not negative")
        if not all(part.is_floating_point() for part in parts):
            raise ValueError("integers cannot be made noisy: smooth needs floating-point inputs")

        def explain_rows(problem: Problem) -> Explained:
            values, changes, remarks = [], [], []
            for row in range(0, len(problem), problem.m):
                example = problem.bound.row(row)
                noisy = _Noisy(self.method, _repeated(score, example, len(parts[0]), n_samples), settings, seed)
                noisy.dtypes = [part.dtype for part in parts]
                noisy.baselines = _baseline_of(baselines, example, parts)
                tunnel = captum.NoiseTunnel(_as_captum(captum, noisy.values_of))
                mine = tuple(part[example : example + 1].detach() for part in parts)
                with seeded(seed):
                    mean = tunnel.attribute(
                        mine if isinstance(inputs, tuple) else mine[0], nt_type="smoothgrad", nt_samples=n_samples,
                        stdevs=tuple(noise * float(x.max() - x.min()) for x in mine),
                    )  # fmt: skip
                values.append(problem.bound.join(mean if isinstance(mean, tuple) else (mean,)))
                problem.bound.gradients_spent[row] += noisy.n_gradients
                problem.bound.forwards_spent[row] += noisy.n_forwards
                remarks.append(f"{noisy.n_ok} of {n_samples} noisy copies went well" if noisy.n_ok < n_samples else "")
                changes.append(noisy.change / n_samples)
                problem.bar.advance(problem.m)
            repeats = problem.m
            # A method with a start of its own has its own change of score, here the mean over the copies.
            own = None if self.method.takes_baselines else torch.stack(changes)
            return Explained(
                torch.cat(values).repeat_interleave(repeats, 0), {"n_samples": n_samples},
                [remark for remark in remarks for _ in range(repeats)], change=own, uses_all_baselines=True,
            )  # fmt: skip

        described = f"NoiseTunnel({self.method.title}, n_samples={n_samples}, noise={noise:g})"
        return pathless(score, inputs, baselines, explain_rows, described=described, seed=seed, progress=progress)


class _Noisy:
    """One example's noisy copies, explained by the method, with what that cost."""

    def __init__(self, method: Method, score: Score, settings: dict[str, Any], seed: int) -> None:
        self.method, self.score, self.settings, self.seed = method, score, settings, seed
        self.baselines: Baselines = None
        self.dtypes: list[torch.dtype] = []
        self.n_gradients = self.n_forwards = self.n_ok = 0
        self.change = torch.zeros(())

    def values_of(self, copies: Inputs) -> Inputs:
        """(n_samples, *features) -> attributions likewise."""
        parts = copies if isinstance(copies, tuple) else (copies,)
        noisy = tuple(
            part.to(dtype) for part, dtype in zip(parts, self.dtypes, strict=True)
        )  # Captum's noise is float32
        asked = noisy if isinstance(copies, tuple) else noisy[0]
        result = finished(self.method(self.score, asked, self.baselines, seed=self.seed, **self.settings))
        self.n_gradients += int(result.n_gradients.sum())
        self.n_forwards += int(result.n_forwards.sum())
        self.change = self.change.to(result.score_change) + result.score_change.sum()
        self.n_ok += sum(status.ok for status in result.status)
        return result.values


def _as_captum(captum: Any, explain: Callable[[Inputs], Inputs]) -> Any:
    """An object that NoiseTunnel takes for an attribution of Captum."""

    def attribute(_self: Any, inputs: Inputs, **_settings: Any) -> Inputs:
        return explain(inputs)

    attribute.__wrapped__ = attribute  # type: ignore[attr-defined]  # NoiseTunnel unwraps Captum's logging
    kind = type(
        "Explained",
        (captum.Attribution,),
        {"attribute": attribute, "multiplies_by_inputs": True, "has_convergence_delta": lambda _self: False},
    )
    return kind(explain)


def _repeated(score: Score, example: int, batch: int, n: int) -> Score:
    """The score of one example, n times: its target and its rows of the extra arguments."""
    target = score.target[example].repeat(n) if isinstance(score.target, Tensor) else score.target
    args = tuple(
        arg[example : example + 1].repeat_interleave(n, 0)
        if isinstance(arg, Tensor) and arg.ndim > 0 and len(arg) == batch
        else arg
        for arg in score.additional_forward_args
    )
    return replace(score, target=target, additional_forward_args=args)


def _baseline_of(baselines: Baselines, example: int, parts: tuple[Tensor, ...]) -> Baselines:
    """The baseline of one example, with a first dimension of one where it has any."""
    if isinstance(baselines, tuple):
        chosen = (_baseline_of(b, example, (part,)) for b, part in zip(baselines, parts, strict=False))
        return tuple(chosen)  # type: ignore[arg-type]
    if isinstance(baselines, Tensor) and baselines.ndim > 0 and len(baselines) == len(parts[0]):
        return baselines[example : example + 1]
    return baselines
