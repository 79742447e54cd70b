"""Scikit-learn's estimators as what a Score takes: modules made from their weights, or plain functions.

A fitted `MLPClassifier`, `MLPRegressor`, `LogisticRegression`, `LinearRegression`, `Ridge`, `Lasso` or `ElasticNet` is
a few matrices: `as_module` writes them as a torch module, which has gradients and answers as the estimator does.
Pipelines may begin with scalers. Trees and neighbours have no gradients: `as_function` serves methods that need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.optional import import_optional

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity, "logistic": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU,
}  # fmt: skip
PROBES, SAME = 16, 1e-6  # rows on which a module is compared with its estimator, and what is rounding
WITHOUT_GRADIENTS = ("permutation_shap", "kernel_shap", "occlusion")


def as_module(estimator: Any, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A fitted estimator as a torch module, by its weights.

    Classifiers return logits (batch, classes), in the order of `estimator.classes_`: their softmax is `predict_proba`.
    (Of a classifier with several labels at once the sigmoid is.) Regressors return `predict`. `lp.Score(estimator, …)`
    does this by itself.

    Args:
        estimator: an `MLPClassifier`, `MLPRegressor`, `LogisticRegression`, `LinearRegression`, `Ridge`, `Lasso` or
            `ElasticNet`, or a `Pipeline` of scalers (`StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`) and one of
            these.
        dtype: what the weights are kept in. They are used in the type of the inputs.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
        >>> fitted = LogisticRegression().fit(x, [0, 1, 1, 0])
        >>> logits = as_module(fitted)(torch.as_tensor(x))
        >>> bool(torch.allclose(logits.softmax(1), torch.as_tensor(fitted.predict_proba(x))))
        True
    """
    module = nn.Sequential(*(part.to(dtype) for part in _parts(estimator))).eval()
    _check_answers(estimator, module)
    return module


def _check_answers(estimator: Any, module: nn.Module) -> None:
    """Refuse a module that answers otherwise than its estimator, which may have another last step or a method of its
    own, on random rows of several sizes."""
    drawn = np.random.default_rng(0).standard_normal((PROBES, int(estimator.n_features_in_)))
    rows = torch.as_tensor(drawn * np.logspace(-1, 1, PROBES)[:, None])
    with torch.no_grad():
        found, wanted = module(rows).double(), as_function(estimator)(rows)
    if hasattr(estimator, "predict_proba"):
        last = getattr(estimator, "_final_estimator", estimator)
        several = getattr(last, "out_activation_", "") == "logistic" and last.n_outputs_ > 1
        found = found.sigmoid() if several else found.softmax(1)
    same_shape = found.shape == wanted.shape
    apart = float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-12)) if same_shape else np.inf
    labels = np.asarray(estimator.predict(_named(estimator, rows))) if hasattr(estimator, "classes_") else None
    if same_shape and labels is not None and labels.ndim == 1:  # predict may have been overridden alone
        chosen = np.asarray(estimator.classes_)[found.argmax(1).numpy()]
        clear = (found.topk(2, 1).values.diff(dim=1)[:, 0].abs() > 1e-6).numpy()
        apart = max(apart, float((chosen != labels)[clear].any()))
    if not apart <= SAME:
        raise ValueError(
            f"{type(estimator).__name__} answers otherwise than its weights say (by {apart:.2g} of the largest one): "
            "it has another last step, or methods of its own. Explain it without gradients, "
            "lp.Score(as_function(estimator), target) with method='permutation_shap'"
        )


def as_function(estimator: Any) -> Answers:
    """Any fitted estimator as a plain function of tensors: `predict_proba`, or `predict` where there is none.

    It has no gradients. Methods that need none take it: "permutation_shap", "kernel_shap" and "occlusion".

    Example:
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> tree = DecisionTreeRegressor().fit([[0.0], [1.0]], [3.0, 5.0])
        >>> as_function(tree)(torch.tensor([[0.9]]))
        tensor([5.])
    """
    if not hasattr(estimator, "predict"):
        raise ValueError(f"{type(estimator).__name__} has no predict: pass a fitted estimator of scikit-learn")
    return Answers(estimator)


@dataclass(frozen=True)
class Answers:
    """What an estimator answers, as a function of tensors (batch, features)."""

    estimator: Any

    def __call__(self, inputs: Tensor) -> Tensor:
        """(batch, classes), or (batch,) for a regressor of one output."""
        rows = _named(self.estimator, inputs)
        predict = getattr(self.estimator, "predict_proba", None) or self.estimator.predict
        return torch.as_tensor(np.asarray(predict(rows), dtype=np.float64)).to(inputs)


def _named(estimator: Any, inputs: Tensor) -> Any:
    """Rows as the estimator takes them: with names, where it was fitted to a data frame and warns about all else."""
    rows, names = inputs.detach().cpu().double().numpy(), getattr(estimator, "feature_names_in_", None)
    if names is None:
        return rows
    return import_optional("pandas", "this estimator was fitted to a data frame", "eval").DataFrame(rows, columns=names)


# ---- parts -------------------------------------------------------------------------------------------------------


class Affine(nn.Module):
    """x ↦ (x W + b), in the type of x. Weights are buffers: nothing trains them."""

    def __init__(self, weight: Any, bias: Any) -> None:
        super().__init__()
        self.register_buffer("weight", torch.as_tensor(np.array(weight, dtype=np.float64)))  # (inputs, outputs)
        self.register_buffer("bias", torch.as_tensor(np.array(bias, dtype=np.float64)))  # (outputs,)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.get_buffer("weight").to(x), self.get_buffer("bias").to(x)
        return x * weight + bias if weight.ndim == 1 else x @ weight + bias


class AgainstNothing(nn.Module):
    """One logit z as two, (0, z): their softmax is (1 − sigmoid(z), sigmoid(z))."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(z), z], 1)


class OneNumber(nn.Module):
    """(batch, 1) as (batch,): how regressors of one output answer."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


def _parts(estimator: Any) -> list[nn.Module]:
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
        return [*map(_scaler, steps[:-1]), *_parts(steps[-1])]
    try:
        check_is_fitted(estimator)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{type(estimator).__name__} is not fitted: call fit first. ({error})") from None
    for kinds, parts in _list_kinds():
        if isinstance(estimator, kinds):
            return parts(estimator)
    raise ValueError(
        f"{type(estimator).__name__} cannot be written as a torch module, so it has no gradients: explain it with a "
        f"method that needs none ({', '.join(WITHOUT_GRADIENTS)}), as in "
        "METHODS['permutation_shap'](lp.Score(as_function(estimator), target), inputs, baselines)"
    )


def _list_kinds() -> Sequence[tuple[tuple[type, ...], Callable[[Any], list[nn.Module]]]]:
    from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    return (
        ((MLPClassifier, MLPRegressor), _network),
        ((LogisticRegression,), _logistic),
        ((LinearRegression, Ridge, ElasticNet), _linear),  # Lasso is an ElasticNet
    )


def _network(estimator: Any) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        parts += [Affine(weight, bias), ACTIVATIONS[estimator.activation]()]
    parts.pop()  # the last layer has another one, which Score's output stands for
    if estimator.out_activation_ == "identity":
        return [*parts, OneNumber()] if estimator.n_outputs_ == 1 else parts
    return [*parts, AgainstNothing()] if estimator.n_outputs_ == 1 else parts


def _logistic(estimator: Any) -> list[nn.Module]:
    affine = Affine(estimator.coef_.T, estimator.intercept_)
    if len(estimator.coef_) == 1:
        return [affine, AgainstNothing()]
    one_versus_rest = estimator.solver == "liblinear" or getattr(estimator, "multi_class", None) == "ovr"
    # There predict_proba divides the classes' own probabilities by their sum; so does the softmax of their logarithms.
    return [affine, nn.LogSigmoid()] if one_versus_rest else [affine]


def _linear(estimator: Any) -> list[nn.Module]:
    coefficients = np.asarray(estimator.coef_)
    if coefficients.ndim == 1:
        return [Affine(coefficients[:, None], np.reshape(estimator.intercept_, -1)), OneNumber()]
    return [Affine(coefficients.T, estimator.intercept_)]


def _scaler(step: Any) -> nn.Module:
    """A scaler as x · weight + bias, number by number."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    n = getattr(step, "n_features_in_", 0)
    if isinstance(step, StandardScaler) and n:
        scale = np.ones(n) if step.scale_ is None else step.scale_
        center = np.zeros(n) if step.mean_ is None or not step.with_mean else step.mean_
        return Affine(1 / scale, -center / scale)
    if isinstance(step, MaxAbsScaler) and n and not getattr(step, "clip", False):
        return Affine(1 / step.scale_, np.zeros(n))
    if isinstance(step, MinMaxScaler) and n and not step.clip:
        return Affine(step.scale_, step.min_)
    raise ValueError(
        f"the pipeline's step {step!r} is no fitted StandardScaler, MinMaxScaler or MaxAbsScaler without clip: "
        "explain the last step, lp.Score(pipeline[-1], target), on pipeline[:-1].transform(inputs), or a frame with "
        "tabular.explain(pipeline[-1], frame, preprocess=pipeline[:-1], background=frame)"
    )
