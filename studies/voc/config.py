"""What the VOC study does: images, network, methods and what they may spend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leastpath.methods import METHODS, Method
from leastpath.solvers import Descent
from studies.voc.backbones import BACKBONES, DEFAULT
from studies.voc.methods import GEODESIC_SAMPLED, IDGI_SAMPLED
from studies.voc.model import Training

LINE = "integrated_gradients"
OUTPUTS = ("log_softmax", "softmax", "sigmoid", "raw")
COLORS = {"black": 0.0, "white": 1.0}
PAPER_METHODS: tuple[str, ...] = (
    "random", "input_x_gradient", "gradient_shap", "integrated_gradients", "kernel_shap", "occlusion", "guided_ig",
    "idgi", IDGI_SAMPLED, "geodesic_descent", "geodesic_idgi", GEODESIC_SAMPLED, "geodesic_variational",
)  # fmt: skip
"""The methods of the paper's Table 2, with IDGI and our own beside them."""
RIVALS: tuple[str, ...] = (
    "saliency", "grad_cam", "grad_cam_plus_plus", "samp", "samp_plus_plus", "spectral_ig", "ig2", "agi", "mfaba",
    "boundary_ig", "fisher_rao", "elastic_band", "staircase",
)  # fmt: skip
"""What has come since, and our own later ones. Expected Gradients from one baseline would be Gradient SHAP."""


@dataclass(frozen=True)
class VocConfig:
    """All that the results depend on, but for the images themselves.

    Example:
        >>> VocConfig(images=100).size
        128
    """

    images: int = 100
    """Explained images: of the validation images, shuffled by the seed."""
    skip: int = 0
    """Shuffled images to leave out before: those that settings were chosen on, for instance."""
    size: int = 128
    backbone: str = DEFAULT
    weights: str | None = None
    output: str = "log_softmax"
    """What is explained."""
    baseline: str = "black"
    """"black", "white" or "grey", the colour that the network's normalisation maps to zero."""
    methods: tuple[str, ...] = PAPER_METHODS
    steps: int = 50
    """Gradients of methods that take a fixed number of them."""
    budget: int = 500
    """Gradients an image of the geodesic methods, solver and integral together."""
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        for name, given, known in (
            ("output", self.output, OUTPUTS),
            ("baseline", self.baseline, (*COLORS, "grey")),
            ("backbone", self.backbone, tuple(BACKBONES)),
        ):
            if given not in known:
                raise ValueError(f"{name}={given!r} is unknown: use one of {', '.join(known)}")
        for name, number, least in (
            ("images", self.images, 1), ("size", self.size, 16), ("steps", self.steps, 1), ("budget", self.budget, 1),
            ("skip", self.skip, 0),
        ):  # fmt: skip
            if number < least:
                raise ValueError(f"{name}={number} must be at least {least}")
        for name in self.methods:
            METHODS[name]  # names that do not exist are refused here, not after the training


def contenders(config: VocConfig) -> dict[str, Method]:
    """The methods with the settings of this experiment.

    Example:
        >>> contenders(VocConfig(methods=("gradient_shap",), steps=20))["gradient_shap"].defaults["n_samples"]
        20
    """
    return {name: _contender(name, config) for name in config.methods}


def _contender(name: str, config: VocConfig) -> Method:
    method, settings = METHODS[name], _settings(name, config)
    return method.with_settings(**{key: value for key, value in settings.items() if key in method.defaults})


def _settings(name: str, config: VocConfig) -> dict[str, Any]:
    """Fixed steps for what integrates once; half of the budget for the solver of what finds its path first."""
    fixed: dict[str, Any] = {"tolerance": None, "n_steps": config.steps}
    if name in RIVALS:
        return {"limits": (0.0, 1.0)} | (fixed | {"support": False} if "tolerance" in METHODS[name].defaults else {})
    window = max(1, config.size // 8)
    solver = Descent(max_gradients=max(1, config.budget // 2))
    special: dict[str, dict[str, Any]] = {
        "occlusion": {"window": window, "stride": window},
        "kernel_shap": {"n_samples": 4 * config.steps},
        "gradient_shap": {"n_samples": config.steps},
        "guided_ig": fixed,
        "geodesic_variational": {"n_points": 10, "n_samples": 0, "max_gradients": config.budget},
        "geodesic_descent": {"solver": solver, "max_gradients": config.budget},
        "geodesic_idgi": {"solver": solver, **fixed},
        "as_printed": {"solver": solver, **fixed},
        GEODESIC_SAMPLED: {"solver_gradients": solver.max_gradients},
    }
    straight = ("integrated_gradients", "idgi", "idg", "blur_ig")
    return special.get(name, fixed if name in straight else {})
