"""Models, scores and solvers that several tests share."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from math import factorial

import pytest
import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath.solvers.amortized import PathPredictor
from leastpath.solvers.descent.field import Field
from leastpath.solvers.solution import Stop


def flat_points(batch: int, features: int = 2, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """(batch, features), standard normal, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, features, generator=generator, dtype=torch.float64).to(dtype)


def seeded(make, seed: int = 0):
    """What `make` builds with this seed; the global random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


# ---- all solvers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A solver as the invariants meet it, and what it does not serve: tests of that are skipped, with the reason.

    Inputs have two features, of shape `shape`. A solver that belongs to one score and metric is made for each.
    """

    make: Callable[[lp.Score, lp.Metric, Tensor], lp.Solver]
    shape: tuple[int, ...] = (2,)
    needs: str = "torch"
    metrics: tuple[type[lp.Metric], ...] = (lp.Conformal, lp.RankOne, lp.NoCancellation, lp.Euclidean)

    def solver(self, score: lp.Score, metric: lp.Metric, dtype: torch.dtype) -> lp.Solver:
        if not isinstance(metric, self.metrics):
            pytest.skip(f"serves {' and '.join(kind.__name__ for kind in self.metrics)} only")
        return self.make(score, metric, CLOUD.to(dtype))

    def shaped(self, points: Tensor) -> Tensor:
        """(…, 2) -> (…, *shape)."""
        return points.reshape(*points.shape[:-1], *self.shape)


def case(name: str, solver, needs: str = "torch", **what):
    """One line of ALL_SOLVERS: a solver, or a function (score, metric, points) that makes one; `needs` is a module."""
    make = solver if callable(solver) else lambda score, metric, points: solver
    missing = pytest.mark.skipif(find_spec(needs) is None, reason=f"needs {needs}")
    return pytest.param(Case(make, needs=needs, **what), id=name, marks=missing)


CLOUD = flat_points(60, seed=11)
BENT = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.2, 0.7], [1.0, 1.0]]]))
COARSE = {"n_starts": 1, "floor": 0.5, "tolerance": 0.5, "max_nodes": 12}


def amortized() -> lp.Amortized:
    """A network with random weights, so that its predictions are neither straight nor good."""

    def make() -> PathPredictor:
        predictor = PathPredictor(torch.Size([2]), 5, 4)
        nn.init.normal_(predictor.network[-1].weight)
        return predictor.eval().requires_grad_(False)

    return lp.Amortized(seeded(make))


# Every invariant of tests/invariants and of tests/solvers/test_all.py runs on each of these. A new solver is one more
# line here.
ALL_SOLVERS = [
    case("straight", lp.StraightLine()),
    case("graph", lambda score, metric, points: lp.NeighborGraph(points, 8)),
    case("built graph", lambda score, metric, points: lp.NeighborGraph(points, 8).build(score, metric)),
    case("enhanced", lambda score, metric, points: lp.EnhancedIG(points, 8)),
    case("descent", lp.Descent()),
    case("warm descent", lp.WarmDescent(lp.Descent(150), torch.ones(1, 2), BENT)),
    case("elastic", lp.ElasticBand()),
    case("amortized", amortized()),
    case("guided", lp.GuidedIG(max_distance=0.1, n_steps=12)),
    case("blur", lp.BlurIG(max_sigma=0.7, n_knots=5), shape=(1, 2)),  # an image of two pixels
    case("spectral", lp.SpectralIG(n_knots=5)),
    case("samp", lp.SAMP(n_portions=2)),
    case("samp++", lp.SAMP("deletion", n_portions=2, max_step=0.2, momentum=0.5)),
    case("discretized", lambda score, metric, points: lp.DiscretizedIG(points, 8, 5)),
    case("manifold", lp.Manifold(lambda x: x[:, :1], lambda z: torch.cat([z, z.sin()], 1))),
    case("ode", lp.GeodesicODE(9, **COARSE), metrics=(lp.Conformal, lp.RankOne)),
    case("variational", lp.Variational(4, 3, n_samples=0), needs="pyro"),
    case("hamiltonian", lp.Hamiltonian(4, 1, n_points=2, max_tree_depth=1, n_paths=0), needs="pyro"),
]


# ---- all methods ----------------------------------------------------------------------------------------------------

FAST = {  # settings that keep the suite fast; what is tested does not depend on them
    "smooth_integrated_gradients": {"n_samples": 3, "n_steps": 4},
    "smooth_grad": {"n_samples": 5},
    "smooth_grad_squared": {"n_samples": 5},
    "var_grad": {"n_samples": 5},
    "rise": {"n_masks": 20},
    "geodesic_variational": {"n_iterations": 3, "n_points": 4, "n_samples": 0},
    "geodesic_descent": {"max_gradients": 200},
    "geodesic_idgi": {"max_gradients": 200},
    "as_printed": {"max_gradients": 200},
    "guided_ig": {"n_steps": 8},
    "blur_ig": {"n_knots": 5},
    "manifold_ig": {"encoder": lambda x: x, "decoder": lambda z: z + 0.1 * torch.sin(z), "n_knots": 5},
    "gradient_shap": {"n_samples": 6},
    "kernel_shap": {"n_samples": 30},
    "lime": {"n_samples": 30},
    "expected_gradients": {"n_samples": 6},
    "permutation_shap": {"n_permutations": 2},
    "sequential_ig": {"n_steps": 5},
    "ig2": {"n_steps": 5},
    "agi": {"n_steps": 4},
    "mfaba": {"n_steps": 4},
    "discretized_ig": {"n_words": 4},
    "boundary_ig": {"attack_steps": 8},
    "fisher_rao": {"n_pieces": 6},
}


def fast_method(name: str, points: Tensor) -> lp.Method:
    """A method of the table with settings that are fast, and with points (n, *features) where it asks for data."""
    method = lp.METHODS[name].with_settings(**FAST.get(name, {}))
    data = {"points": points, "n_neighbors": 6} if "points" in method.defaults else {}
    return method.with_settings(**{key: given for key, given in data.items() if key in method.defaults})


# ---- models and scores ----------------------------------------------------------------------------------------------


def mlp(features: int = 4, classes: int = 3, seed: int = 0, activation: type[nn.Module] = nn.Tanh) -> nn.Module:
    return seeded(
        lambda: nn.Sequential(
            nn.Linear(features, 16), activation(), nn.Linear(16, 16), activation(), nn.Linear(16, classes)
        ),
        seed,
    ).eval()


def autoencoder(points: Tensor, n_latent: int = 1, width: int = 32, epochs: int = 40) -> tuple[nn.Module, nn.Module]:
    """A small encoder and decoder that have learnt points (n, features), the same every time."""

    def learnt() -> tuple[nn.Module, nn.Module]:
        sizes = (points.shape[1], n_latent), (n_latent, points.shape[1])
        parts = [nn.Sequential(nn.Linear(a, width), nn.SiLU(), nn.Linear(width, b)) for a, b in sizes]
        both = nn.Sequential(*parts)
        optimizer = torch.optim.Adam(both.parameters(), 5e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(points)).split(64):
                optimizer.zero_grad()
                (both(points[rows]) - points[rows]).square().mean().backward()
                optimizer.step()
        both.eval().requires_grad_(False)
        return parts[0], parts[1]

    return seeded(learnt)


def cnn(classes: int = 3, seed: int = 0) -> nn.Module:
    """For images (batch, 2, 6, 6)."""
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(36, classes),
        ),
        seed,
    ).eval()


@cache
def moons_net(dtype: torch.dtype = torch.float32) -> nn.Module:
    """A ReLU classifier of two features, trained on two arcs: steep at the border and flat elsewhere."""

    def train() -> nn.Module:
        model = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2))
        angle, label = torch.rand(400) * torch.pi, torch.arange(400) % 2
        x = torch.stack([angle.cos(), angle.sin()], 1)
        x = torch.where(label[:, None] == 1, torch.tensor([1.0, 0.5]) - x, x) + 0.1 * torch.randn(400, 2)
        optimiser = torch.optim.Adam(model.parameters(), 0.02)
        for _ in range(150):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), label).backward()
            optimiser.step()
        model.zero_grad(set_to_none=True)
        return model.eval().to(dtype)

    return seeded(train, 3)


def wave(x: Tensor) -> Tensor:
    """On the diagonal the two waves cancel, so that no sum of attributions sees them."""
    return torch.sin(40 * x[:, 0]) - torch.sin(40 * x[:, 1]) + x[:, 0]


def relative_error(values: Tensor, expected: Tensor) -> Tensor:
    """Σ|error| / Σ|expected| of each example."""
    return (values - expected).flatten(1).abs().sum(1) / expected.flatten(1).abs().sum(1)


def scaled(net: nn.Module, factor: float) -> nn.Module:
    for parameter in net.parameters():
        parameter.data.mul_(factor)
    return net.eval()


def steep_net(features: int = 24) -> nn.Module:
    """A smooth classifier whose softmax saturates: short crossings exist on both sides."""

    def make() -> nn.Module:
        net = nn.Sequential(nn.Linear(features, 48), nn.Tanh(), nn.Linear(48, 3))
        return scaled(net, 4)

    return seeded(make, 0)


class TextNet(nn.Module):
    """Token ids (batch, length) and an optional mask to logits (batch, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.mix = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = self.mix(self.embedding(ids)).tanh()
        if mask is not None:
            hidden = hidden * mask[..., None]
        return self.head(hidden.mean(1))


class Dropping(nn.Module):
    """Training mode changes buffers and draws random numbers, but row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.calls += 1
            torch.rand(1)
        return self.net(x)


def field_of(score: lp.Score, start: Tensor, end: Tensor, limit: int = 1000, metric=None) -> Field:
    """The score as the stages of Descent see it: start, end (batch, *features)."""
    bound, run = score.bind(end), lp.Run()
    budget = run.budget(bound).at_most(limit)
    return Field(bound, metric or lp.Conformal(), Stop(run), budget, torch.arange(len(end)), start, end)


class Counted:
    """A callable that counts what it is asked for: rows with and without gradient, calls, the largest call."""

    def __init__(self, model) -> None:
        self.model = model
        self.gradient_rows = self.value_rows = self.gradient_calls = self.largest = 0

    def __call__(self, x: Tensor, *args) -> Tensor:
        self.largest = max(self.largest, len(x))
        if torch.is_grad_enabled() and x.requires_grad:
            self.gradient_rows += len(x)
            self.gradient_calls += 1
        else:
            self.value_rows += len(x)
        return self.model(x, *args)


class Interrupting:
    """A model that is interrupted at its n-th call, or at its n-th call with gradient."""

    def __init__(self, model, at: int, only_gradients: bool = False) -> None:
        self.model, self.left, self.only_gradients = model, at, only_gradients

    def __call__(self, x: Tensor) -> Tensor:
        self.left -= x.requires_grad or not self.only_gradients
        if self.left == 0:
            raise KeyboardInterrupt
        return self.model(x)


class Polyline:
    """A solver for tests: through fixed fractions of the way, each with a fixed offset. Deliberately no short path."""

    def __init__(self, *offsets: float) -> None:
        self.offsets = offsets or (0.7, -0.4)

    def solve(self, score, metric, start, end, run) -> lp.Solution:
        n = len(self.offsets) + 1
        inner = [torch.lerp(start, end, (i + 1) / n) + offset for i, offset in enumerate(self.offsets)]
        return lp.Solution(lp.Path.polyline(torch.stack([start, *inner, end], 1)))

    def __repr__(self) -> str:
        return f"Polyline{self.offsets}"


def separable(x: Tensor) -> Tensor:
    """f(x) = sin 2x₀ + x₁³ − …: every path gives fᵢ(xᵢ) − fᵢ(x̄ᵢ), which is `separable_parts`."""
    return separable_parts(x).flatten(1).sum(1)


def separable_parts(x: Tensor) -> Tensor:
    parts = [torch.sin(2 * x[:, 0]), *(x[:, i] ** 3 / 3 - x[:, i] for i in range(1, x.shape[1]))]
    return torch.stack(parts, 1)


@contextmanager
def left_untouched(model: nn.Module):
    """Asserts that the model, and the program's random state, are afterwards what they were before."""
    before, random = _state_of(model), torch.get_rng_state()
    yield
    after = _state_of(model)
    for name, kept in before.items():
        assert len(kept) == len(after[name]), name
        for a, b in zip(kept, after[name], strict=True):
            assert torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b, name
    assert torch.equal(random, torch.get_rng_state())


def _state_of(model: nn.Module) -> dict[str, list]:
    parameters = list(model.parameters())
    return {
        "weights and buffers": [tensor.clone() for tensor in model.state_dict().values()],
        "modes": [module.training for module in model.modules()],
        "gradients": [None if p.grad is None else p.grad.clone() for p in parameters],
        "requires_grad": [p.requires_grad for p in parameters],
        "hooks": hooks_of(model),
    }


def hooks_of(model: nn.Module) -> list[int]:
    """How many hooks of each kind each module has."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [len(getattr(module, name)) for module in model.modules() for name in names]


def shapley(score, x, base):
    """By enumeration of all coalitions, for one example (features,)."""
    n, values = len(x), torch.zeros_like(x)

    def worth(members):
        point = base.clone()
        point[list(members)] = x[list(members)]
        return float(score(point[None]))

    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            values[i] += sum(weight * (worth((*s, i)) - worth(s)) for s in combinations(others, size))
    return values
