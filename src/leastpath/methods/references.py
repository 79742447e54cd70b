"""Many references instead of one: Expected Gradients (Erion et al. 2021) and LPI (Yang et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import Count, check_features
from leastpath._support.rows import flat_rows, per_row
from leastpath.integral.pieces import integrate_lines
from leastpath.methods.method import Explained, Problem, method
from leastpath.score.calls import run_part


@method("Expected Gradients", "Gradients between the input and random references, averaged.", unitless=True)
def expected_gradients(problem: Problem, *, n_samples: Count = 200) -> Explained:
    """Expected Gradients: the mean of (x − x′)ᵢ ∂ᵢf at random points between x and random references x′.

    References are the baselines of an example. For background data give them to all examples alike,
    `baselines=data[None]` of shape (1, m, *features). The draws are the same for every example.

    Args:
        n_samples: pairs of a reference and a place, one gradient each.
    """
    bound, m = problem.bound, problem.m
    generator = torch.Generator().manual_seed(problem.seed)
    chosen = torch.randint(m, (n_samples,), generator=generator)
    alphas = torch.rand(n_samples, generator=generator, dtype=torch.float64)
    total = torch.zeros_like(problem.end[::m], dtype=bound.work_dtype)
    first = torch.arange(0, len(problem), m)
    for reference, alpha in zip(chosen.tolist(), alphas.tolist(), strict=True):
        start, end = (points[first + reference].to(bound.work_dtype) for points in (problem.start, problem.end))
        total += (end - start) * bound.gradients(torch.lerp(start, end, alpha), first + reference)[1]
        problem.bar.advance(len(problem) / n_samples)
    values = (total / n_samples).repeat_interleave(m, 0)
    return Explained(values, {"n_samples": n_samples}, uses_all_baselines=True)


@method(
    "Local path integration",
    "Integrated Gradients from references of the input's own neighbourhood.",
    takes_baselines=False,
)
def lpi(
    problem: Problem,
    *,
    points: Tensor | None = None,
    represent: Callable[[Tensor], Tensor] | None = None,
    n_centers: Count = 11,
    n_references: Count = 10,
    n_steps: Count = 5,
) -> Explained:
    """Local path integration: Integrated Gradients from references of the input's own neighbourhood.

    The data are clustered by k-means. Each cluster is clustered again, and the points nearest to these inner centres
    are its references, weighted by how many points they stand for. An input takes those of its cluster. `score_change`
    is f(x) minus the weighted mean of f over them.

    Args:
        points: (n, *features) the data, e.g. training inputs.
        represent: (n, *features) -> (n, d), where distances are taken: the paper's is a layer of the net. None: the
            features themselves.
        n_centers: clusters; fewer where there are fewer points.
        n_references: of a cluster; fewer where it has fewer points.
        n_steps: gradients for each reference, by Gauss–Legendre quadrature.
    """
    if points is None:
        raise ValueError("lpi needs data points: pass points, as in method(score, inputs, points=train_inputs)")
    bound, rows = problem.bound, torch.arange(len(problem))
    check_features("points", points.shape[1:], bound.shape)
    points = points.detach().to(problem.end.device, bound.work_dtype)
    end = problem.end.to(bound.work_dtype)
    groups = _neighbourhoods(points, end, represent or flat_rows, n_centers, n_references, problem.seed)
    values, change = torch.zeros_like(end), bound.values(end, rows)
    for row, (chosen, shares) in enumerate(groups):
        start, share = points[torch.as_tensor(chosen)], torch.as_tensor(shares).to(end)
        example = torch.full((len(start),), row)
        lines = integrate_lines(bound, start, end[row].expand_as(start), example, n_steps)  # (references, *features)
        values[row] = (lines * per_row(share, lines)).sum(0)
        change[row] -= (bound.values(start, example) * share).sum()
        problem.bar.advance()
    counts = torch.tensor([len(chosen) for chosen, _ in groups])
    return Explained(values, {"n_references": counts}, [f"{n} references" for n in counts.tolist()], change)


def _neighbourhoods(
    points: Tensor, inputs: Tensor, represent: Callable[[Tensor], Tensor], n_centers: int, n_references: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each input the rows of its references among the points, and their weights, which sum to one."""
    from sklearn.cluster import KMeans

    with torch.no_grad():
        read = [run_part("represent", represent, x).detach().flatten(1) for x in (points, inputs)]
    data, asked = (part.cpu().double().numpy() for part in read)

    def cluster(x: np.ndarray, n: int) -> KMeans:
        return KMeans(min(n, len(np.unique(x, axis=0))), n_init=3, random_state=seed % 2**32).fit(x)

    outer = cluster(data, n_centers)
    known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    labels = outer.predict(asked)
    for label in sorted(set(labels.tolist())):
        members = np.flatnonzero(outer.labels_ == label)
        inner = cluster(data[members], n_references)
        nearest = [int(np.argmin(np.linalg.norm(data[members] - center, axis=1))) for center in inner.cluster_centers_]
        sizes = np.bincount(inner.labels_, minlength=len(nearest))
        known[label] = members[nearest], sizes / sizes.sum()
    return [known[label] for label in labels.tolist()]
