"""Amortised paths: a small network learns from solved examples how paths deviate from the straight line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path as File

import torch
from torch import Tensor, nn

from leastpath._support.checks import Settings, check_features, check_integer, check_setting, seed_of
from leastpath._support.files import check_readable, write_atomically
from leastpath._support.rows import per_row
from leastpath._support.threads import own_draws
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.descent.solver import Descent
from leastpath.solvers.solution import Solution, Solved, paths_of


@dataclass(frozen=True, eq=False)
class Amortized(Settings):
    """Paths predicted by a small network, then improved by a few steps of `Descent`. Made by `Amortized.fit`.

    Args:
        predictor: from both ends to the deviations of the knots.
        solver: continues from the predicted path.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x.mean(1) - 10))
        >>> x = torch.rand(8, 30, generator=torch.Generator().manual_seed(0))
        >>> solved = lp.attribute(score, x, method=lp.Descent())
        >>> solver = lp.Amortized.fit(solved, epochs=20)
        >>> lp.attribute(score, x[:2] + 0.01, method=solver).values.shape
        torch.Size([2, 30])
    """

    predictor: PathPredictor = field(repr=False)
    solver: Descent = field(default_factory=Descent)

    @classmethod
    def fit(
        cls,
        result: Solved,
        solver: Descent | None = None,
        *,
        n_knots: int = 16,
        width: int = 32,
        epochs: int = 200,
        learning_rate: float = 3e-3,
        seed: int = 0,
        progress: bool = False,
    ) -> Amortized:
        """Learn from the paths of a result.

        Args:
            result: of `attribute`, with any solver that has good paths.
            solver: continues from a prediction; `Descent()` by default.
            n_knots: predicted between the ends.
            width: channels (images) or a quarter of the hidden units (vectors) of the network.
            epochs: passes over the paths.
            learning_rate: of Adam.
            seed: of the network's first weights; the global random state is not changed.
            progress: show a progress bar.
        """
        path = paths_of(result)
        for name, number in (("n_knots", n_knots), ("width", width), ("epochs", epochs)):
            check_integer(name, number, 1)
        check_setting("learning_rate", learning_rate, float)
        knots = path.resample(n_knots + 2).points.unflatten(0, (len(path), n_knots + 2)).float()
        start, end = knots[:, 0], knots[:, -1]
        deviation = knots[:, 1:-1] - _line(start, end, n_knots)
        with own_draws(seed_of(seed)):
            predictor = PathPredictor(start.shape[1:], n_knots, width).to(start.device)
        predictor.scale.fill_(float(deviation.square().mean().sqrt().clamp_min(1e-12)))
        optimizer = torch.optim.Adam(predictor.parameters(), learning_rate)
        with torch.enable_grad(), Run(seed, progress=progress).bar("learning paths", epochs) as bar:
            for _ in range(epochs):
                loss = ((predictor(start, end) - deviation) / predictor.scale).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                bar.advance(1, f"squared error {float(loss.detach()):.3f} of the deviation's")
        return cls(predictor.eval().requires_grad_(False), solver or Descent())

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline for each example."""
        check_features("the fitted network", self.predictor.shape, start.shape[1:])
        ends = (x.to(self.predictor.scale.device, torch.float32) for x in (start, end))  # the network stays where it is
        inner = _line(start, end, self.predictor.n_knots) + self.predictor(*ends).to(start)
        guess = Path.polyline(torch.cat([start[:, None], inner, end[:, None]], 1))
        return replace(self.solver, start_from=guess).solve(score, metric, start, end, run)

    def save(self, file: str | File) -> None:
        """Write the network with safetensors (`leastpath[io]`), without the solver's settings."""
        from safetensors.torch import save

        p = self.predictor
        settings = {"shape": json.dumps(list(p.shape)), "n_knots": str(p.n_knots), "width": str(p.width)}
        write_atomically(file, save({name: t.contiguous() for name, t in p.state_dict().items()}, settings))

    @classmethod
    def load(cls, file: str | File, solver: Descent | None = None) -> Amortized:
        """Read what `save` wrote."""
        from safetensors import safe_open

        with check_readable(file, "a path predictor", "Amortized.save"), safe_open(file, "pt") as stored:
            settings = stored.metadata() or {}
            if "n_knots" not in settings:
                raise ValueError("it holds other weights")
            shape = torch.Size(json.loads(settings["shape"]))
            predictor = PathPredictor(shape, int(settings["n_knots"]), int(settings["width"]))
            predictor.load_state_dict({name: stored.get_tensor(name) for name in stored.keys()})  # noqa: SIM118
        return cls(predictor.eval().requires_grad_(False), solver or Descent())


class PathPredictor(nn.Module):
    """Both ends to the deviations of the knots between them.

    Images (channels, height, width) go through a few convolutions, the last ones dilated to see far; everything else
    is flattened and goes through a multi-layer perceptron. Deviations are predicted relative to `scale`, and the last
    layer starts at zero: an untrained network predicts the straight line.
    """

    scale: Tensor

    def __init__(self, shape: torch.Size, n_knots: int, width: int) -> None:
        super().__init__()
        self.shape, self.n_knots, self.width = torch.Size(shape), n_knots, width
        self.register_buffer("scale", torch.ones(()))
        layers: list[nn.Module] = []
        if len(shape) == 3:
            channels = 2 * shape[0]
            for dilation in (1, 2, 4, 8):
                layers += [nn.Conv2d(channels, width, 3, padding=dilation, dilation=dilation), nn.GELU()]
                channels = width
            last: nn.Module = nn.Conv2d(width, n_knots * shape[0], 3, padding=1)
        else:
            n, hidden = max(1, self.shape.numel()), 4 * width
            layers += [nn.Flatten(), nn.Linear(2 * n, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()]
            last = nn.Linear(hidden, n_knots * n)
        assert isinstance(last, (nn.Conv2d, nn.Linear)) and last.bias is not None
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(*layers, last)

    def forward(self, start: Tensor, end: Tensor) -> Tensor:
        """start, end (batch, *features) -> (batch, knots, *features)."""
        ends = torch.cat([start, end], 1) if len(self.shape) == 3 else torch.stack([start, end], 1)
        return self.scale * self.network(ends).reshape(len(start), self.n_knots, *self.shape)


def _line(start: Tensor, end: Tensor, n_knots: int) -> Tensor:
    """The inner knots of the straight line: (batch, n_knots, *features)."""
    t = torch.linspace(0, 1, n_knots + 2, device=start.device, dtype=start.dtype)[1:-1]
    return torch.lerp(start[:, None], end[:, None], per_row(t[None], start[:, None]))
