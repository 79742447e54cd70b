"""The small autoencoder: it learns a curve, the same for the same seed, and comes back from its file."""

import pytest
import torch

import leastpath as lp


@pytest.fixture(scope="module")
def arc() -> torch.Tensor:
    """Two thirds of a tilted circle."""
    angle = torch.linspace(0, 4, 400)
    return torch.stack([angle.cos(), angle.sin(), 0.5 * angle.cos()], 1)


@pytest.fixture(scope="module")
def vae(arc) -> lp.VAE:
    return lp.VAE.fit(arc, n_latent=1, width=32, epochs=40, learning_rate=5e-3)


def test_rebuilds_what_it_has_learnt(vae, arc):
    error = (vae(arc) - arc).norm(dim=1).mean()
    assert error < 0.1 * arc.norm(dim=1).mean()
    assert not vae.training and not any(p.requires_grad for p in vae.parameters())


def test_reconstruction_tells_data_from_what_is_off_them(vae, arc):
    metric = lp.Reconstruction(vae.encoder, vae.decoder, scale=0.1)
    assert metric.error(arc).mean() < 0.3 * metric.error(arc + torch.tensor([0.0, 0.0, 1.0])).mean()


def test_same_seed_same_network_and_no_global_seeds(arc):
    before = torch.get_rng_state()
    first, second, other = (lp.VAE.fit(arc[:50], 2, width=8, epochs=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first(arc), second(arc)) and not torch.equal(first(arc), other(arc))


def test_manifold_follows_the_learnt_data(vae, arc):
    """The decoded geodesic stays nearer the data than the straight line between the arc's ends does."""
    x, base = arc[:1], arc[-1:]
    score = lp.Score(lambda x: x.sum(1))
    path = lp.attribute(score, x, base, solver=lp.Manifold(vae.encoder, vae.decoder)).path
    line = lp.Path.straight(base, x)
    far = [torch.cdist(p.at(torch.linspace(0, 1, 50))[0], arc).amin(1).mean() for p in (path, line)]
    assert far[0] < 0.5 * far[1]


def test_file_gives_the_same_network(vae, arc, tmp_path):
    pytest.importorskip("safetensors")
    vae.save(tmp_path / "vae.safetensors")
    assert torch.equal(lp.VAE.load(tmp_path / "vae.safetensors")(arc), vae(arc))
    assert [f.name for f in tmp_path.iterdir()] == ["vae.safetensors"]


def test_file_of_something_else(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="is not a saved autoencoder"):
        lp.VAE.load(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("points", "settings", "words"),
    [
        (torch.zeros(5), {}, r"points have shape \(5,\)"),
        (torch.full((5, 2), torch.nan), {}, "without NaN"),
        (torch.zeros(5, 2), {"n_latent": 0}, "n_latent=0.*must be positive"),
    ],
)
def test_bad_arguments(points, settings, words):
    with pytest.raises(ValueError, match=words):
        lp.VAE.fit(points, **settings)


def test_images_keep_their_shape():
    images = torch.rand(20, 1, 4, 4)
    vae = lp.VAE.fit(images, 2, width=8, epochs=1)
    assert vae(images).shape == images.shape
