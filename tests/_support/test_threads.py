"""Several threads at once: each answer equals the one that a thread alone gets."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import mlp
from leastpath._support.threads import finish, in_this_thread, own_draws
from leastpath.methods import METHODS

NET = mlp(activation=nn.ReLU)
X = torch.linspace(-1, 1, 12).reshape(3, 4)
SCORE, LAYER = lp.Score(NET, 0), lp.Score(NET, 0, layer=NET[1])


def draw_everything() -> list[torch.Tensor]:
    counts = torch.distributions.Categorical(torch.ones(4)).sample((5,))
    flips = torch.distributions.Bernoulli(torch.full((6,), 0.5)).sample()
    normal = torch.normal(torch.zeros(3), torch.ones(3))
    return [
        counts, flips, normal, torch.rand_like(normal), torch.randn_like(normal, dtype=torch.float64),
        torch.rand(2, dtype=torch.float64), torch.randint(9, (3,)), torch.randperm(5), torch.empty(3).uniform_(),
        nn.Linear(2, 3).weight, nn.Embedding(2, 2).weight, torch.multinomial(torch.ones(4), 2),
    ]  # fmt: skip


def test_own_draws_against_a_global_seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = draw_everything()
    before = torch.get_rng_state()
    with own_draws(5):
        drawn = draw_everything()
    assert all(torch.equal(a, b) for a, b in zip(drawn, expected, strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_a_hook_acts_in_its_own_thread_only():
    layer = nn.Identity()
    with layer.register_forward_hook(in_this_thread(lambda module, args, output: output + 1)):
        mine = layer(torch.zeros(1))
        with ThreadPoolExecutor(1) as pool:
            theirs = pool.submit(layer, torch.zeros(1)).result()
    assert (float(mine), float(theirs)) == (1, 0)


def solved(solver: lp.Solver, score: lp.Score = SCORE) -> torch.Tensor:
    return lp.attribute(score, X, method=solver).values


TASKS = {
    "layer": lambda: solved(lp.StraightLine(), LAYER),
    "input": lambda: solved(lp.StraightLine()),
    **{
        name: lambda name=name: METHODS[name](SCORE, X).values for name in ("kernel_shap", "gradient_shap", "deep_lift")
    },
}
MAPS = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).eval()
IMAGES = torch.linspace(0, 1, 72).reshape(2, 1, 6, 6)
for cam in ("grad_cam", "grad_cam_plus_plus"):
    TASKS[cam] = lambda name=cam: METHODS[name](lp.Score(MAPS, 0), IMAGES).values
if find_spec("pyro"):
    TASKS["variational"] = lambda: solved(lp.Variational(4, 3, n_samples=0))
    TASKS["hamiltonian"] = lambda: solved(lp.Hamiltonian(4, 1, n_points=2, max_tree_depth=1, n_paths=0))


@pytest.fixture
def switching_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.filterwarnings("ignore:Setting forward", "ignore:Input Tensor")  # Python keeps filters for all threads
def test_threads_against_one_thread(switching_often):
    alone = {name: task() for name, task in TASKS.items()}
    drawn: list[float] = []
    stop = threading.Event()

    def draw() -> None:
        while not stop.is_set():
            drawn.append(float(torch.rand(1, dtype=torch.float64)))

    with torch.random.fork_rng(devices=[]), ThreadPoolExecutor(5) as pool:
        drawing = pool.submit(draw)
        found = [(name, pool.submit(task)) for _ in range(3) for name, task in TASKS.items()]
        wrong = [name for name, future in found if not torch.equal(future.result(), alone[name])]
        stop.set()
        drawing.result()
    assert not wrong
    assert len(drawn) == len(set(drawn)) > 0  # nobody put the random state back meanwhile


def test_what_is_put_back_is_put_back_before_an_interruption_is_raised():
    """Oracle: the list of what was done. Ctrl-C comes in the middle of the first try."""
    done = []

    def put_back():
        done.append("first")
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append("second")

    with pytest.raises(KeyboardInterrupt):
        finish(put_back)
    assert done == ["first", "first", "second"]
