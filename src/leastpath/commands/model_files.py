"""The user's model, from a file or from a function that makes it.

Weights (a state dict) are read without running code from the file. A whole program (.pt2 or TorchScript) is opened only
where the user says that its source is trusted. A pickled model is never opened.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.files import check_unpacked_size, reason_of
from leastpath._support.fingerprint import digest
from leastpath._support.optional import import_by_name, import_optional
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.commands.options import ModelOptions
from leastpath.score.estimators import as_module

ADD_CLASS = "add --model-class package.module:Class, the class they belong to"
FORMATS = (
    "weights as .safetensors or .pth with --model-class package.module:Class, or with --trust-model a program saved by "
    "torch.export.save(…, 'model.pt2') or a TorchScript archive"
)


def load_model(
    file: str | Path, model_class: str | None = None, arguments: str | None = None, *, trust: bool = False
) -> Callable[[Tensor], Any]:
    """A model in evaluation mode, on the CPU.

    Args:
        file: .safetensors or a saved state dict, with `model_class`; .pt2 (torch.export) or TorchScript, with `trust`.
        model_class: "package.module:Class" of weights; it is imported, so it must be code that you trust.
        arguments: JSON object of the class's keyword arguments.
        trust: open a program file. A program can run any code when it is opened, so open it only if you trust its
            source.
    """
    file = Path(file)
    if not file.is_file():
        raise ValueError(f"{file} is not a file: pass {FORMATS}")
    check_unpacked_size(file)
    if model_class is not None:
        return _from_class(file, model_class, arguments)
    if file.suffix == ".safetensors":
        raise ValueError(f"{file} holds weights only: {ADD_CLASS}")
    is_script = _is_torchscript(file)
    if not is_script and file.suffix != ".pt2":
        read_state(file)  # refuses whatever is more than tensors
        raise ValueError(f"{file} holds weights only: {ADD_CLASS}")
    if not trust:
        raise ValueError(
            f"{file} is a program, which can run any code when it is opened: add --trust-model if you trust its source"
        )
    try:
        return _from_script(file) if is_script else _from_export(file)
    except Exception as error:  # torch does not say which errors a file that it cannot read raises
        kind = "TorchScript" if is_script else "an exported program"
        raise ValueError(f"{file} cannot be read as {kind}: {reason_of(error)}") from error


def _is_torchscript(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())  # only TorchScript has one


def _from_script(file: Path) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated, but its files still exist
        module: nn.Module = torch.jit.load(str(file), map_location="cpu")
    return module.eval()


def _from_export(file: Path) -> nn.Module:
    program = torch.export.load(file)
    # Guards only check shapes. Newer versions of torch run them unless told not to.
    takes_guards = "check_guards" in inspect.signature(program.module).parameters
    module = program.module(**({"check_guards": False} if takes_guards else {}))
    for part in module.modules():
        part.training = False  # the mode was fixed at export, and `eval()` raises
    return module


def make_model(factory: str, arguments: str | None = None) -> Callable[[Tensor], Any]:
    """The model that a function "package.module:function" makes, in evaluation mode. It must be code that you trust.

    Example:
        >>> make_model("torch.nn:Flatten", '{"start_dim": 1}')
        Flatten(start_dim=1, end_dim=-1)
    """
    made = call_factory(factory, arguments)
    model = as_module(made) if hasattr(made, "predict") and not callable(made) else made  # of scikit-learn
    if not callable(model):
        raise ValueError(f"--factory {factory!r} makes a {type(model).__name__}, expected a model")
    return model.eval() if isinstance(model, nn.Module) else model


def call_factory(factory: str, arguments: str | None = None) -> Any:
    """Whatever a function "package.module:function" makes from keyword arguments in JSON."""
    make, given = _import("--factory", factory), _keywords(arguments)
    try:
        inspect.signature(make).bind(**given)
    except TypeError as error:
        raise ValueError(
            f"--factory {factory}: {error}; pass its arguments with --model-args, a JSON object"
        ) from error
    except ValueError:  # not every function of C has a signature
        pass
    return make(**given)


def _import(option: str, name: str) -> Any:
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))  # where a user's own module usually is; installed commands do not look there
    try:
        return import_by_name(name)
    except ValueError as error:
        raise ValueError(f"{option} {error}") from error
    finally:
        sys.path[:] = before


def _from_class(file: Path, model_class: str, arguments: str | None) -> nn.Module:
    model = _import("--model-class", model_class)(**_keywords(arguments))
    if not isinstance(model, nn.Module):
        raise ValueError(f"--model-class {model_class!r} makes a {type(model).__name__}, expected a torch.nn.Module")
    return fill_weights(model, file, model_class)


def fill_weights(model: nn.Module, file: Path, name: str) -> nn.Module:
    """The model itself, in evaluation mode, with the weights of a file; `name` is for the error if they do not fit."""
    try:
        model.load_state_dict(read_state(file))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ValueError(f"the weights in {file} do not fit {name}: {reason}") from error
    return model.eval()


def read_state(file: Path) -> dict[str, Tensor]:
    """A state dict from .safetensors, or from a file of torch.save that holds tensors and nothing else."""
    if file.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(file)
        except SafetensorError as error:
            raise ValueError(f"{file} cannot be read as safetensors: {error}") from error
    from pickle import UnpicklingError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of files that it then refuses
            state = torch.load(file, weights_only=True, map_location="cpu")
    except (UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{file} is no model, or holds more than tensors, which can run any code when it is opened: save its "
            "weights, torch.save(model.state_dict(), 'weights.pth'), and add --model-class package.module:Class"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"{file} holds a {type(state).__name__}, expected a state dict: torch.save(model.state_dict())"
        )
    return state


def _keywords(arguments: str | None) -> dict[str, Any]:
    try:
        given = json.loads(arguments or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"--model-args {arguments!r} is not JSON ({error}): write '{{\"width\": 8}}'") from error
    if not isinstance(given, dict):
        raise ValueError(f"--model-args {arguments!r} is not a JSON object: write '{{\"width\": 8}}'")
    return given


class GivenModel:
    """The model that the options of a command name, loaded when it is known what for, and the Python that makes it."""

    def __init__(self, options: ModelOptions) -> None:
        self.file, self.factory, self._arguments = options.model, options.factory, options.model_args
        if self.file is not None and self.factory is not None:
            raise ValueError("--model and --factory both name a model: pass one of the two")
        how = {"model_class": options.model_class, "arguments": options.model_args, "trust": options.trust_model}
        self._how: dict[str, Any] = {name: value for name, value in how.items() if value}

    @property
    def is_given(self) -> bool:
        """Whether the options name one; else it is an ImageNet classifier."""
        return self.file is not None or self.factory is not None

    @property
    def identity(self) -> dict[str, str | None]:
        """What tells the model from others, as JSON: its file by content."""
        content = None if self.file is None else digest(self.file.read_bytes())
        how = {"model_class": self._how.get("model_class"), "model_args": self._arguments}
        return {"model": content, "factory": self.factory, **how}

    def load(self) -> Callable[[Tensor], Any]:
        """What the factory makes, or the file holds; an ImageNet classifier where neither is given."""
        if self.factory is not None:
            return make_model(self.factory, self._arguments)
        return EfficientNetLite0() if self.file is None else load_model(self.file, **self._how)

    def load_judge(self, weights: Path) -> nn.Module:
        """A model like it, with weights of its own."""
        if not weights.is_file():
            raise ValueError(f"--judge {weights} is not a file: pass the weights of the fine-tuned copy of your model")
        judge = self.load() if self.file is None else load_model(weights, **self._how)
        if not isinstance(judge, nn.Module):
            made = type(judge).__name__
            raise ValueError(f"--factory {self.factory!r} makes a {made}, and --judge needs a torch.nn.Module")
        return judge if self.file is not None else fill_weights(judge, weights, self.factory or "the classifier")

    def load_for_texts(self) -> tuple[Any, Any]:
        """(model, tokenizer)"""
        if self.factory is not None:
            made = call_factory(self.factory, self._arguments)
            if not isinstance(made, tuple) or len(made) != 2:
                raise ValueError("--factory for texts must make (model, tokenizer)")
            return made
        if self.file is None or not self.file.is_dir():
            raise ValueError(
                "--text needs --model FOLDER, a Hugging Face model for sequence classification, or --factory "
                "package.module:name that makes (model, tokenizer)"
            )
        library = import_optional("transformers", "texts need transformers", "transformers")
        try:
            tokenizer = library.AutoTokenizer.from_pretrained(self.file, local_files_only=True)
            found = library.AutoModelForSequenceClassification.from_pretrained(self.file, local_files_only=True)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0].rstrip(" :")
            raise ValueError(f"{self.file} cannot be read as a Hugging Face model: {reason}") from error
        return found.eval(), tokenizer

    def lines(self, for_texts: bool = False) -> list[str]:
        """Python that makes `model`; for texts also `tokenizer`."""
        if self.factory is not None:
            name, made = ("call_factory", "model, tokenizer") if for_texts else ("make_model", "model")
            given = ", ".join(repr(part) for part in (self.factory, self._arguments) if part)
            return [f"from {__name__} import {name}", f"{made} = {name}({given})"]
        if for_texts:
            return [
                "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
                f"tokenizer = AutoTokenizer.from_pretrained({str(self.file)!r})",
                f"model = AutoModelForSequenceClassification.from_pretrained({str(self.file)!r}).eval()",
            ]
        if self.file is None:
            return ["from leastpath.commands.classifier import EfficientNetLite0", "model = EfficientNetLite0()"]
        given = "".join(f", {name}={value!r}" for name, value in self._how.items())
        return [f"from {__name__} import load_model", f"model = load_model({str(self.file)!r}{given})"]
