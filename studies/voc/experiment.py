"""The paper's Pascal VOC experiment: what is lost when the pixels that an explanation ranks highest are masked?

A 20-way head is trained on frozen features, the predicted class of some validation images is explained by every method,
and the explanations are judged by masking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.fingerprint import digest
from leastpath._support.store import Store
from leastpath.account.run import Run
from leastpath.commands.run_folder import RunFolder
from studies.voc.backbones import Backbone, load_backbone
from studies.voc.config import VocConfig
from studies.voc.data import VocData
from studies.voc.explaining import explained
from studies.voc.model import Classifier, average_precision, train_head
from studies.voc.report import write_report

CHUNK = 32  # images whose features are one unit of work


def run_voc(
    data: VocData,
    config: VocConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    minutes: float | None = None,
    cache: str | Path | None = None,
    backbone: Backbone | None = None,
) -> RunFolder:
    """The whole experiment, into a folder: trains, explains, measures, reports.

    Args:
        data: a checked VOC folder.
        config: what to do.
        folder: where results go.
        resume: go on with what is in the folder.
        minutes: stop explaining after that long and report what is finished; resume later.
        cache: folder of features that several runs share; the run's own by default.
        backbone: instead of the one that the config names.
    """
    backbone = backbone or load_backbone(config.backbone, config.weights)
    if backbone.size not in (None, config.size):
        raise ValueError(f"{backbone.name} takes images of {backbone.size} pixels only: pass --size {backbone.size}")
    run = RunFolder.open(folder, "voc", _identity(data, config, backbone), resume=resume)
    features = run.store if cache is None else Store(cache, {"kind": "features"})
    model = trained_classifier(data, config, backbone, run, features)
    comparison = explained(data, config, model, run, minutes)
    write_report(run, data, config, comparison, backbone)
    return run


def _identity(data: VocData, config: VocConfig, backbone: Backbone) -> dict[str, Any]:
    """What all results of a folder share. Methods may be added to it, so they are no part of this."""
    settings = {name: value for name, value in asdict(config).items() if name not in ("methods", "weights")}
    images = digest([data.names("train"), data.names("val")])
    return {**settings, "backbone": backbone.name, "fingerprint": backbone.fingerprint, "names": images}


def cached_features(
    data: VocData, names: Sequence[str], size: int, backbone: Backbone, store: Store, title: str
) -> Tensor:
    """Features (n, width) of images, computed once: a chunk that is in the store is read from there."""
    chunks = []
    with Run(progress=True).bar(f"features of {title}", len(names)) as bar:
        for first in range(0, len(names), CHUNK):
            some = names[first : first + CHUNK]
            key = f"features {digest([some, size, backbone.fingerprint])}"
            if key not in store:
                with torch.no_grad():
                    store.write(key, {"images": list(some)}, {"features": backbone(data.images(some, size))})
            chunks.append(store.read(key).arrays["features"])
            bar.advance(len(some))
    return torch.cat(chunks)


def trained_classifier(
    data: VocData, config: VocConfig, backbone: Backbone, run: RunFolder, cache: Store
) -> Classifier:
    """The head of an earlier start, or a new one, and how good it is on the validation images."""
    train, val = data.names("train"), data.names("val")
    if "head" not in run.store:
        features = cached_features(data, train, config.size, backbone, cache, "train")
        found = train_head(features, data.labels(train), config.training, seed=config.seed)
        logits = found.head(cached_features(data, val, config.size, backbone, cache, "val"))
        labels = data.labels(val)
        record = {
            "epochs": found.epochs,
            "held_out_loss": found.held_out_loss,
            "train_images": len(train),
            "val_images": len(val),
            "mean_average_precision": float(average_precision(logits, labels).nanmean()),
            "top_class_is_present": float(labels.gather(1, logits.argmax(1, keepdim=True)).mean()),
        }
        run.store.write("head", record, found.head.state_dict())
    state = run.store.read("head").arrays
    head = nn.utils.skip_init(nn.Linear, state["weight"].shape[1], state["weight"].shape[0])
    head.load_state_dict(state)
    return Classifier(backbone, head)
