"""SmoothGrad of any method: the mean of its attributions over noisy copies of the input, by Captum's NoiseTunnel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import Count, check_setting
from leastpath.methods.captum_peers import import_captum, seed_captum
from leastpath.methods.method import Explained, Method, Problem, Rowwise, describe
from leastpath.methods.noisy_gradients import ShareOfRange
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.score import Score, rows_of


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
    defaults = {**method.defaults, "n_samples": 10, "noise": 0.15}
    return replace(
        method, name=name, title=title, role="peer", summary=f"Mean of {method.title} over noisy copies of the input.",
        complete=False, unitless=False, explain=Smoothed(name, method), defaults=defaults, extra="captum",
        recommended=(), costs=None,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Smoothed:
    """NoiseTunnel around a method of ours."""

    name: str
    method: Method

    def __call__(self, problem: Problem, *, n_samples: int, noise: float, **settings: Any) -> Explained:
        explain = partial(self._explain, n_samples=n_samples, noise=noise, settings=settings)
        explained = Rowwise(self.name, explain)(problem)
        return replace(explained, described=describe(self.name, {"n_samples": n_samples, "noise": noise}))

    def check(self, score: Score, settings: Mapping[str, Any]) -> None:
        """Refuse settings that cannot work, before the model runs."""
        check_setting("n_samples", settings["n_samples"], Count)
        check_setting("noise", settings["noise"], ShareOfRange)
        inner = {name: given for name, given in settings.items() if name in self.method.defaults}
        self.method.check(score, None, inner)

    def _explain(self, problem: Problem, *, n_samples: int, noise: float, settings: Mapping[str, Any]) -> Explained:
        m, values, changes, remarks = problem.m, [], [], []
        for row in range(0, len(problem), m):
            mean, copies = self._smooth(problem, problem.bound.space.row(row), n_samples, noise, settings)
            values.append(problem.bound.space.join(mean))
            changes.append(copies.score_change.mean())
            problem.bound.gradients_spent[row] += int(copies.n_gradients.sum())
            problem.bound.forwards_spent[row] += int(copies.n_forwards.sum())
            n_ok = sum(status.ok is True for status in copies.status)
            remarks += [f"{n_ok} of {n_samples} noisy copies went well" if n_ok < n_samples else ""] * m
            problem.bar.advance(m)
        # A method with a start of its own has its own change of score, here the mean over the copies.
        change = None if self.method.takes_baselines else torch.stack(changes)
        stats = {"n_samples": n_samples}
        return Explained(torch.cat(values).repeat_interleave(m, 0), stats, remarks, change, uses_all_baselines=True)

    def _smooth(
        self, problem: Problem, example: int, n_samples: int, noise: float, settings: Mapping[str, Any]
    ) -> tuple[tuple[Tensor, ...], Attribution]:
        """The mean of one example's attributions, and the result of its noisy copies."""
        captum, inputs = import_captum("smooth"), problem.inputs
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        if not all(part.is_floating_point() for part in parts):
            raise ValueError("integers cannot be made noisy: smooth needs floating-point inputs")
        own, _, start = rows_of(problem.score, inputs, problem.baselines, [example] * n_samples)
        found: list[Attribution] = []

        def of_copies(copies: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            noisy = tuple(copy.to(part.dtype) for copy, part in zip(copies, parts, strict=True))  # noise is float32
            asked = noisy if isinstance(inputs, tuple) else noisy[0]
            found.append(finished(self.method(own, asked, start, seed=problem.seed, support=False, **settings)))
            values = found[0].values
            return values if isinstance(values, tuple) else (values,)

        clean = tuple(part[example : example + 1].detach() for part in parts)
        deviations = tuple(noise * float(x.max() - x.min()) for x in clean)
        tunnel = captum.NoiseTunnel(_as_captum(captum, of_copies))
        with seed_captum(problem.seed):
            mean = tunnel.attribute(clean, nt_type="smoothgrad", nt_samples=n_samples, stdevs=deviations)
        return mean, found[0]


def _as_captum(captum: Any, explain: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]) -> Any:
    """An object that NoiseTunnel takes for an attribution of Captum."""

    def attribute(_self: Any, inputs: tuple[Tensor, ...], **_settings: Any) -> tuple[Tensor, ...]:
        return explain(inputs)

    attribute.__wrapped__ = attribute  # type: ignore[attr-defined]  # NoiseTunnel unwraps Captum's logging
    answers = {"attribute": attribute, "multiplies_by_inputs": True, "has_convergence_delta": lambda _self: False}
    return type("Explained", (captum.Attribution,), answers)(explain)
