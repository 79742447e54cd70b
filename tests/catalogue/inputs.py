"""Every method with inputs, baselines and seeds that are wrong or unusual."""

import math
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn

import leastpath as lp
from catalogue.table import Case, Refused, Right
from helpers import mlp
from leastpath.methods import METHODS

NET = mlp(features=2)
SCORE = lp.Score(NET, 1)
X = torch.tensor([[0.5, -1.0], [1.0, 0.25], [-0.75, 0.5]])
IMAGES = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8)
IMAGE_SCORE = lp.Score(lambda x: x.flatten(1).sum(1))
NEEDED: dict[str, dict[str, Any]] = {
    "enhanced_ig": {"points": torch.linspace(-1, 1, 40).reshape(20, 2), "n_neighbors": 3},
    "lpi": {"points": torch.linspace(-1, 1, 40).reshape(20, 2)},
    "geodesic_graph": {"points": torch.linspace(-1, 1, 40).reshape(20, 2), "n_neighbors": 3},
    "discretized_ig": {"points": torch.linspace(-1, 1, 40).reshape(20, 2)},
    "manifold_ig": {"encoder": lambda x: x[:, :1], "decoder": lambda z: torch.cat([z, z], 1)},
}
NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)

BAD_INPUTS: dict[str, tuple[Any, str]] = {
    "NaN": (torch.tensor([[math.nan, 1.0]]), "inputs of example 0 holds NaN or infinite values"),
    "infinite": (torch.tensor([[1.0, 1.0], [math.inf, 1.0]]), "inputs of example 1 holds NaN or infinite values"),
    "integers": (torch.ones(2, 2, dtype=torch.long), "which has no gradient: pass inputs.float"),
    "booleans": (torch.ones(2, 2, dtype=torch.bool), "which has no gradient"),
    "complex": (torch.ones(2, 2, dtype=torch.complex64), "inputs has dtype torch.complex64, expected real numbers"),
    "sparse": (torch.ones(2, 2).to_sparse(), "inputs is a sparse tensor"),
    "nested": (NESTED, "inputs is a nested tensor"),
    "meta": (torch.ones(2, 2, device="meta"), "inputs lies on the device meta"),
    "no examples": (torch.ones(0, 2), "expected at least one example"),
    "a number": (torch.tensor(1.0), "expected at least one example"),
    "an array": (np.ones((2, 2), np.float32), "inputs is a ndarray, expected a tensor"),
    "a list of tensors": ([torch.ones(2), torch.ones(2)], "inputs is a list"),
    "None": (None, "inputs is a NoneType, expected a tensor"),
    "an empty tuple": ((), "inputs is an empty tuple"),
    "a tuple of unequal batches": ((torch.ones(2, 2), torch.ones(3, 2)), "expected one batch size"),
}
BAD_BASELINES: dict[str, tuple[Any, str]] = {
    "NaN": (torch.full((1, 2), math.nan), "baselines hold NaN or infinite values"),
    "a NaN number": (math.nan, "baselines hold NaN or infinite values"),
    "complex": (torch.ones(1, 2, dtype=torch.complex64), "baselines has dtype torch.complex64"),
    "a complex number": (1j, "baselines must be None, a number or a tensor"),
    "a word": ("black", "baselines must be None, a number or a tensor, got str"),
    "other features": (torch.ones(1, 5), r"baselines have shape \(1, 5\)"),
    "sparse": (torch.ones(1, 2).to_sparse(), "baselines is a sparse tensor"),
    "meta": (torch.ones(1, 2, device="meta"), "baselines lies on the device meta"),
    "an array": (np.zeros((1, 2), np.float32), "baselines must be None, a number or a tensor, got ndarray"),
}
CHEAP = ("integrated_gradients", "input_x_gradient", "gradient_shap", "elastic_band", "random", "lime", "kernel_shap")


def installed(name: str) -> bool:
    return {"captum": find_spec("captum"), "svi": find_spec("pyro"), None: True}[METHODS[name].extra] is not None


def cases() -> Iterator[Case]:
    for name, method in METHODS.items():
        if not installed(name) or name not in METHODS.built_in or name == "blur_ig":
            continue
        call = partial(method, **NEEDED.get(name, {}))
        for what, (given, words) in BAD_INPUTS.items():
            said = f"{words}|integers cannot be made noisy" if name == "smooth_integrated_gradients" else words
            yield Case(f"methods.METHODS[{name}]", f"inputs: {what}", partial(call, SCORE, given), Refused(said))
        for what, (given, words) in BAD_BASELINES.items():
            if name in CHEAP:
                yield Case(
                    f"methods.METHODS[{name}]", f"baselines: {what}", partial(call, SCORE, X, given), Refused(words)
                )
        yield Case(
            f"methods.METHODS[{name}]", "a model for a score", partial(call, NET, X), Refused("expected a Score")
        )
        yield Case(
            f"methods.METHODS[{name}]",
            "an unknown setting",
            partial(call, SCORE, X, magic=1),
            Refused("has no setting"),
        )
        yield Case(
            f"methods.METHODS[{name}]",
            "a word for a seed",
            partial(call, SCORE, X, seed="today"),
            Refused("seed='today'"),
        )
    yield from models()
    yield from seeds_and_defaults()


def by_rows(name: str, **settings: Any) -> torch.Tensor:
    return torch.cat([METHODS[name](SCORE, X[i : i + 1], **settings).values for i in range(len(X))])


def straight(model: Any, x: torch.Tensor = X, **score: Any) -> torch.Tensor:
    return lp.attribute(lp.Score(model, **score), x, method=lp.StraightLine()).values


def with_default(set_it: Any, value: Any, put_back: Any, call: Any) -> Any:
    set_it(value)
    try:
        return call()
    finally:
        set_it(put_back)


def seeds_and_defaults() -> Iterator[Case]:
    peers = [name for name in ("kernel_shap", "gradient_shap", "lime", "occlusion", "random") if installed(name)]
    for name in peers:
        call = partial(METHODS[name], SCORE, X)
        yield Case(
            f"methods.METHODS[{name}]", "a batch against a loop", lambda call=call: call().values,
            Right(partial(by_rows, name), 1e-5),
        )  # fmt: skip
        for what, seed in (("of NumPy", np.int64(3)), ("of the clock", time.time_ns()), ("below zero", -7)):
            yield Case(
                f"methods.METHODS[{name}]", f"a seed {what} twice", lambda call=call, seed=seed: call(seed=seed).values,
                Right(lambda call=call, seed=seed: call(seed=int(seed)).values),
            )  # fmt: skip
    for solver in (lp.StraightLine(), lp.Descent(80), lp.ElasticBand(), lp.GuidedIG(n_steps=8)):
        call = partial(lp.attribute, SCORE, X, solver=solver)
        yield Case(
            type(solver).__name__,
            "float64 by default, a float32 model",
            partial(
                with_default, torch.set_default_dtype, torch.float64, torch.float32, lambda call=call: call().values
            ),
            Right(lambda call=call: call().values),
        )
        yield Case(
            type(solver).__name__, "meta as the default device",
            partial(with_default, torch.set_default_device, "meta", None, lambda call=call: call().values),
            Right(lambda call=call: call().values),
        )  # fmt: skip


class Looked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids).mean(1)


class Placed(Looked):
    """With an embedding of two positions besides that of five words."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(2, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return (self.embedding(ids) + self.places(torch.arange(ids.shape[1]))).mean(1)


def made_in_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return nn.Linear(2, 2)


def models() -> Iterator[Case]:
    relu, writing = (mlp(2, activation=partial(nn.ReLU, inplace=inplace)) for inplace in (False, True))
    looked, placed = Looked().eval(), Placed().eval()
    ids = torch.tensor([[0, 1, 7]])
    weights = torch.ones(3, dtype=torch.float64)
    yield Case(
        "Score", "an in-place step after the explained layer", partial(straight, writing, target=0, layer=writing[2]),
        Right(partial(straight, relu, target=0, layer=relu[2])),
    )  # fmt: skip
    yield Case(
        "Score", "a model that writes on its input", partial(straight, lambda x: x.mul_(2).prod(1)),
        Right(partial(straight, lambda x: (x * 2).prod(1))),
    )  # fmt: skip
    refused = {
        "floats for token ids": (
            partial(straight, looked, target=0),
            "looks up token ids, and the inputs are torch.float32",
        ),
        "ids beyond the vocabulary": (
            partial(straight, looked, ids, target=0, layer=looked.embedding),
            "ids from 0 to 7, and .* has 5 rows",
        ),
        "ids beyond the largest of several vocabularies": (
            partial(straight, placed, ids, target=0, layer=placed.embedding),
            "ids from 0 to 7, and .* has 5 rows",
        ),
        "more tokens than positions": (
            partial(straight, placed, torch.zeros(1, 3, dtype=torch.long), target=0, layer=placed.embedding),
            "more tokens than the model has positions",
        ),
        "weights made in inference mode": (
            partial(straight, made_in_inference_mode(), target=0),
            "weights were made under torch.inference_mode",
        ),
        "class weights of another type": (
            partial(straight, lambda x, w: x @ w.reshape(1, 3)[:, :2].T, additional_forward_args=weights[None]),
            "an extra argument is torch.float64, the inputs are torch.float32",
        ),
        "features that do not fit": (partial(straight, nn.Linear(5, 1).eval()), "cannot read inputs of shape"),
        "a model of several outputs without target": (partial(straight, NET), "say which, Score\\(model, target=0\\)"),
        "a target out of range": (partial(straight, NET, target=9), "target 9 is out of range"),
        "a score that is NaN": (partial(straight, lambda x: x.sum(1) / 0 * 0), "NaN or infinite along its path"),
        "no gradient": (partial(straight, lambda x: x.detach().sum(1)), "no gradient flows"),
        "a constant": (
            partial(straight, lambda x: torch.ones(len(x), requires_grad=True)),
            "does not depend on the inputs",
        ),
        "rows that see each other": (partial(straight, lambda x: x.sum(1) * x.mean()), "rows are not independent"),
    }
    for name, (call, words) in refused.items():
        yield Case("Score", name, call, Refused(words))
    for name, arguments in {
        "no callable": (3,),
        "an unknown output": (NET, 0, "probability"),
        "a fractional target": (NET, 0.5),
        "a float tensor as target": (NET, torch.ones(3)),
        "a margin without a class": (NET, None, "logit_margin"),
    }.items():
        yield Case("Score", name, partial(lp.Score, *arguments), Refused("model|output|target"))
    for name, keywords in {
        "a layer of another model": {"layer": nn.Linear(2, 2)},
        "a batch size of zero": {"batch_size": 0},
        "a fractional batch size": {"batch_size": 2.5},
    }.items():
        yield Case("Score", name, partial(lp.Score, NET, 0, **keywords), Refused("layer|batch_size"))
