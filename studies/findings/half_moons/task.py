"""Half-moons whose classes are explained: nets, points, and what is measured of paths between them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from leastpath.attribution import attribute
from leastpath.geometry.metric import Conformal, Metric
from leastpath.geometry.path import Path
from leastpath.integral.integrator import integrate
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.score import Score
from leastpath.solvers import NeighborGraph, Variational
from leastpath.solvers.solution import Solver
from studies.findings.config import Setting
from studies.moons.config import BASELINE, N_NEIGHBORS
from studies.moons.training import Moons, loaded_net, train_together

NETS = (Moons(0.05, 12), Moons(0.15, 24), Moons(0.30, 36))
FLAT_NETS = tuple(Moons(noise, seed) for noise in (0.05, 0.10, 0.15, 0.20, 0.25) for seed in (12, 24, 36))
ALL_NETS = tuple(dict.fromkeys([*NETS, *FLAT_NETS]))
TOLERANCE = 1e-3  # at the usual 1 % the integral errs by more than the growth of cancellation that is counted
CONFIDENT = 0.99  # predicted probability above which the net counts as flat


@dataclass(frozen=True)
class MoonsTask:
    """Points whose predicted classes are explained, from the paper's baseline.

    Args:
        score: the log-softmax of the predicted class.
        inputs: (n, 2), float64.
        across: (n,) whether the net puts the point on another side of its border than the baseline.
        seed: of solvers.

    Example:
        >>> from leastpath.solvers import StraightLine
        >>> task = MoonsTask(Score(lambda x: x.prod(1)), torch.ones(1, 2).double(), torch.tensor([True]))
        >>> task.explained(StraightLine()).score_change
        tensor([0.7500], dtype=torch.float64)
    """

    score: Score
    inputs: Tensor
    across: Tensor
    seed: int = 0

    @property
    def baseline(self) -> Tensor:
        """(1, 2)."""
        return torch.tensor([BASELINE], dtype=self.inputs.dtype)

    def explained(self, solver: Solver, metric: Metric | None = None) -> Attribution:
        """Attributions (n, 2) with their evidence."""
        found = attribute(
            self.score, self.inputs, self.baseline, method=solver, metric=metric, tolerance=TOLERANCE, seed=self.seed
        )
        return finished(found)


def moons_task(setting: Setting, net: Moons, n: int, *, flat: bool = False) -> MoonsTask:
    """The first n test points of a net; with `flat`, of those across its border that it is sure of.

    Example:
        >>> import tempfile
        >>> from leastpath._support.store import Store
        >>> setting = Setting(Store(tempfile.mkdtemp(), {}), quick=True)
        >>> moons_task(setting, NETS[0], 5).inputs.shape
        torch.Size([5, 2])
    """
    model, inputs = _trained(setting, net), net.test[0].double()
    probability, predicted = model(inputs).softmax(1).max(1)
    across = predicted != model(torch.tensor([BASELINE], dtype=inputs.dtype)).argmax(1)
    wanted = across & (probability > CONFIDENT) if flat else torch.ones_like(across)
    rows = wanted.nonzero()[:n, 0]
    return MoonsTask(Score(model, predicted[rows], "log_softmax"), inputs[rows], across[rows], net.seed)


def _trained(setting: Setting, net: Moons) -> nn.Sequential:
    """A net of `ALL_NETS` out of the store. They are trained in one stack: none depends on which study comes first."""
    epochs = setting.of("half_moons.epochs")
    key = "net half-moons {} epochs={}"
    if key.format(net.key, epochs) not in setting.store:
        for task, weights in zip(ALL_NETS, train_together(ALL_NETS, epochs), strict=True):
            setting.store.write(key.format(task.key, epochs), {"noise": task.noise, "seed": task.seed}, weights)
    return loaded_net(setting.store.read(key.format(net.key, epochs)).arrays).double()


def has_pyro() -> bool:
    """Without it there is no `Variational`."""
    return find_spec("pyro") is not None


def variational_solver(setting: Setting, **changed: Any) -> Variational:
    if setting.quick:
        changed = {"n_iterations": 10, "n_points": 5, **changed}
    return Variational(n_samples=0, **changed)


def data_graph(setting: Setting, net: Moons, *, refine: bool) -> NeighborGraph:
    """Over the data, as the paper has it: training points, so that routes do not depend on what else is explained."""
    points = net.train[0][: setting.of("half_moons.graph_points")].double()
    return NeighborGraph(points, N_NEIGHBORS, refine=refine)


def departure(path: Path) -> Tensor:
    """The largest distance of a path from its straight line, as a share of the line's length: (batch,).

    The distance from a line is convex, so that on a polyline it is largest at a knot. NaN where both ends are one.

    Example:
        >>> departure(Path.polyline(torch.tensor([[[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]]])))
        tensor([1.5000])
    """
    found = []
    for b in range(len(path)):
        knots = path[b].flatten(1)
        way = knots[-1] - knots[0]
        t = ((knots - knots[0]) @ way / (way @ way)).clamp(0, 1)
        found.append((knots - knots[0] - t[:, None] * way).norm(dim=1).max() / way.norm())
    return torch.stack(found)


def mean_square_gradient(score: Score, inputs: Tensor, baseline: Tensor, n: int = 32) -> float:
    """The mean of ‖∇f‖² along the straight lines from baseline (1, features) to inputs (batch, features).

    Example:
        >>> mean_square_gradient(Score(lambda x: 3 * x[:, 0] - 4 * x[:, 1]), torch.ones(5, 2), torch.zeros(1, 2))
        25.0
    """
    t = (torch.arange(n, dtype=inputs.dtype) + 0.5).div(n).view(-1, 1, 1)
    points = torch.lerp(baseline.expand_as(inputs), inputs, t)  # (n, batch, features)
    gradient = score.bind(inputs).gradients(points.flatten(0, 1), torch.arange(len(inputs)).repeat(n))[1]
    return float((gradient**2).sum(1).mean())


def conformal_ratio(score: Score, path: Path) -> Tensor:
    """A path's length over its straight line's, both under `Conformal`, whatever it was made short in: (batch,).

    Example:
        >>> bent = Path.polyline(torch.tensor([[[0.0, 0.0], [0.0, 4.0], [3.0, 4.0]]]))
        >>> round(float(conformal_ratio(Score(lambda x: x.sum(1)), bent)), 3)  # 7 over 5
        1.4
    """
    lines = Path.straight(path.start, path.end)
    found, line = (
        integrate(score, p, Conformal(), tolerance=TOLERANCE, measure="length").length for p in (path, lines)
    )
    return found / line
