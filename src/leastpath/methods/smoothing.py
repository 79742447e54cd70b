"""SmoothGrad of any method: the mean of its attributions over noisy copies of the input, by Captum's NoiseTunnel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_setting, check_tensor
from leastpath.methods.captum_peers import imported_captum, seeded
from leastpath.methods.method import Method
from leastpath.methods.pathless import Explained, Problem, pathless
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.score import Baselines, Inputs, Score, rows_of


def smooth(method: Method, *, name: str | None = None, title: str | None = None) -> Method:
    """SmoothGrad of a method: it is run on `n_samples` noisy copies of each input, and the attributions are averaged.

    The result has the settings of the method and two more: `n_samples`, and `noise`, the standard deviation as a share
    of the range of the input's values (max − min, for each example).

    `name` and `title` are those of the new method; by default they are made from the old ones.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.methods import METHODS, smooth
        >>> smoothed = smooth(METHODS["input_x_gradient"])
        >>> smoothed(lp.Score(lambda x: (x**2).sum(1)), torch.ones(2, 3), n_samples=4).values.shape
        torch.Size([2, 3])
    """
    name, title = name or f"smooth_{method.name}", title or f"SmoothGrad of {method.title}"
    summary = f"Mean of {method.title} over noisy copies of the input."
    defaults = {**method.defaults, "n_samples": 10, "noise": 0.15}
    explain = SmoothExplainer(method)
    return Method(name, title, "peer", summary, False, explain, defaults, "captum", method.takes_baselines)


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
        check_integer("n_samples", n_samples, 1)
        check_setting("noise", noise, float)
        if not 0 <= noise < float("inf"):
            raise ValueError(f"noise={noise} must be a finite number of at least 0: a share of the input's range")
        for part in parts:
            check_tensor("inputs", part)
        if not all(part.is_floating_point() for part in parts):
            raise ValueError("integers cannot be made noisy: smooth needs floating-point inputs")

        def smoothed(example: int) -> tuple[tuple[Tensor, ...], Attribution]:
            """The mean of one example's attributions, and the result of its noisy copies."""
            own, _, start = rows_of(score, inputs, baselines, [example] * n_samples)
            found: list[Attribution] = []

            def of_copies(copies: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                noisy = tuple(copy.to(part.dtype) for copy, part in zip(copies, parts, strict=True))  # noise is float32
                asked = noisy if isinstance(inputs, tuple) else noisy[0]
                found.append(finished(self.method(own, asked, start, seed=seed, **settings)))
                values = found[0].values
                return values if isinstance(values, tuple) else (values,)

            clean = tuple(part[example : example + 1].detach() for part in parts)
            deviations = tuple(noise * float(x.max() - x.min()) for x in clean)
            tunnel = captum.NoiseTunnel(_as_captum(captum, of_copies))
            with seeded(seed):
                mean = tunnel.attribute(clean, nt_type="smoothgrad", nt_samples=n_samples, stdevs=deviations)
            return mean, found[0]

        def explain_rows(problem: Problem) -> Explained:
            m, values, changes, remarks = problem.m, [], [], []
            for row in range(0, len(problem), m):
                mean, copies = smoothed(problem.bound.space.row(row))
                values.append(problem.bound.space.join(mean))
                changes.append(copies.score_change.mean())
                problem.bound.gradients_spent[row] += int(copies.n_gradients.sum())
                problem.bound.forwards_spent[row] += int(copies.n_forwards.sum())
                n_ok = sum(status.ok for status in copies.status)
                remarks += [f"{n_ok} of {n_samples} noisy copies went well" if n_ok < n_samples else ""] * m
                problem.bar.advance(m)
            # A method with a start of its own has its own change of score, here the mean over the copies.
            change = None if self.method.takes_baselines else torch.stack(changes)
            stats = {"n_samples": n_samples}
            return Explained(torch.cat(values).repeat_interleave(m, 0), stats, remarks, change, uses_all_baselines=True)

        described = f"NoiseTunnel({self.method.title}, n_samples={n_samples}, noise={noise:g})"
        return pathless(score, inputs, baselines, explain_rows, described=described, seed=seed, progress=progress)


def _as_captum(captum: Any, explain: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]) -> Any:
    """An object that NoiseTunnel takes for an attribution of Captum."""

    def attribute(_self: Any, inputs: tuple[Tensor, ...], **_settings: Any) -> tuple[Tensor, ...]:
        return explain(inputs)

    attribute.__wrapped__ = attribute  # type: ignore[attr-defined]  # NoiseTunnel unwraps Captum's logging
    answers = {"attribute": attribute, "multiplies_by_inputs": True, "has_convergence_delta": lambda _self: False}
    return type("Explained", (captum.Attribution,), answers)(explain)
