"""A small variational autoencoder, for `Manifold` and `Reconstruction` where none is at hand."""

from __future__ import annotations

import json
from pathlib import Path as File
from types import ModuleType

import torch
from torch import Tensor, nn

from leastpath._support.files import write_whole
from leastpath._support.rows import flat_rows
from leastpath.run import Run

KEPT_VARIANCE = 1e-6  # of the data: below it a reconstruction counts as exact


class VAE(nn.Module):
    """A multi-layer perceptron each way, smooth as geodesics want it. Made by `VAE.fit`.

    Args:
        shape: of one example.
        n_latent: dimensions of the latent space.
        width: hidden units of both layers, each way.

    Example:
        >>> points = torch.rand(64, 5, generator=torch.Generator().manual_seed(0))
        >>> vae = VAE.fit(points, n_latent=2, epochs=2)
        >>> vae(points).shape, vae.encoder(points)[0].shape
        (torch.Size([64, 5]), torch.Size([64, 2]))
    """

    def __init__(self, shape: torch.Size | tuple[int, ...], n_latent: int, width: int) -> None:
        super().__init__()
        self.shape, self.n_latent, self.width = torch.Size(shape), n_latent, width
        self.encoder = _Encoder(self.shape, n_latent, width)
        self.decoder = _Decoder(self.shape, n_latent, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, *features) -> their reconstructions (n, *features)."""
        rebuilt: Tensor = self.decoder(self.encoder(x)[0])
        return rebuilt

    @classmethod
    def fit(
        cls,
        points: Tensor,
        n_latent: int = 8,
        *,
        width: int = 256,
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        seed: int = 0,
        progress: bool = False,
    ) -> VAE:
        """Learn the data.

        The decoder's variance is the one that fits best (Rybkin et al. 2021), so there is no β to choose.

        Args:
            points: (n, *features) training data.
            n_latent: dimensions of the latent space.
            width: hidden units of both layers, each way.
            epochs: passes over the data.
            batch_size: rows a step.
            learning_rate: of Adam; falls to zero along a cosine.
            seed: of weights, order and noise; the global random state is left alone.
            progress: show a progress bar.
        """
        if points.ndim < 2 or len(points) < 2 or not torch.isfinite(points).all():
            raise ValueError(
                f"points have shape {tuple(points.shape)}, expected (n ≥ 2, *features) without NaN or infinite values"
            )
        if min(n_latent, width, epochs, batch_size) < 1:
            raise ValueError(
                f"n_latent={n_latent}, width={width}, epochs={epochs} and batch_size={batch_size} must be positive"
            )
        points = points.detach().float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            vae = cls(points.shape[1:], n_latent, width)
        vae.encoder.standardise(points)
        vae.decoder.standardise(points)
        vae.to(points.device)
        optimizer = torch.optim.Adam(vae.parameters(), learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
        generator = torch.Generator().manual_seed(seed)
        with torch.enable_grad(), Run(seed, progress=progress).bar("learning the data", epochs) as bar:
            for _ in range(epochs):
                for rows in torch.randperm(len(points), generator=generator).split(batch_size):
                    loss = vae._loss(points[rows.to(points.device)], generator)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                schedule.step()
                bar.advance(1, f"loss {float(loss.detach()):.1f}")
        return vae.eval().requires_grad_(False)

    def _loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """−ELBO a row, with the best variance of the decoder put in."""
        mean, log_variance = self.encoder(x)
        noise = torch.randn(mean.shape, generator=generator).to(mean)
        rebuilt = self.decoder(mean + torch.exp(log_variance / 2) * noise)
        error = ((rebuilt - x) / self.decoder.spread).square().mean()
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return self.shape.numel() / 2 * torch.log(error + KEPT_VARIANCE) + divergence

    def save(self, file: str | File) -> None:
        """Write the network with safetensors (`leastpath[io]`)."""
        settings = {"shape": json.dumps(list(self.shape)), "n_latent": str(self.n_latent), "width": str(self.width)}
        tensors = {name: t.contiguous() for name, t in self.state_dict().items()}
        write_whole(file, _safetensors().torch.save(tensors, settings))

    @classmethod
    def load(cls, file: str | File) -> VAE:
        """Read what `save` wrote."""
        with _safetensors().safe_open(file, "pt") as stored:
            settings = stored.metadata() or {}
            if not {"shape", "n_latent", "width"} <= set(settings):
                raise ValueError(f"{file} is not a saved autoencoder: expected a file written by VAE.save")
            vae = cls(tuple(json.loads(settings["shape"])), int(settings["n_latent"]), int(settings["width"]))
            vae.load_state_dict({name: stored.get_tensor(name) for name in stored.keys()})  # noqa: SIM118
        return vae.eval().requires_grad_(False)


class _Standardised(nn.Module):
    """Knows the data's mean (*features) and their spread around it, one number."""

    mean: Tensor
    spread: Tensor

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("spread", torch.ones(()))

    def standardise(self, points: Tensor) -> None:
        self.mean.copy_(points.mean(0))
        self.spread.fill_(float((points - points.mean(0)).square().mean().sqrt().clamp_min(1e-12)))


class _Encoder(_Standardised):
    def __init__(self, shape: torch.Size, n_latent: int, width: int) -> None:
        super().__init__(shape)
        self.network = _perceptron(shape.numel(), width, 2 * n_latent)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n, *features) -> mean and log-variance (n, latent) each."""
        mean, log_variance = self.network(flat_rows((x - self.mean) / self.spread)).chunk(2, 1)
        return mean, log_variance.clamp(-12, 4)  # a variance of zero or infinity has no logarithm


class _Decoder(_Standardised):
    def __init__(self, shape: torch.Size, n_latent: int, width: int) -> None:
        super().__init__(shape)
        self.network = _perceptron(n_latent, width, shape.numel())

    def forward(self, z: Tensor) -> Tensor:
        """(n, latent) -> (n, *features)."""
        return self.mean + self.spread * self.network(z).unflatten(1, self.shape)


def _perceptron(n_in: int, width: int, n_out: int) -> nn.Sequential:
    hidden = nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
    return nn.Sequential(*hidden, nn.Linear(width, n_out))


def _safetensors() -> ModuleType:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError('saving and loading need safetensors: pip install "leastpath[io]"') from error
    return safetensors
