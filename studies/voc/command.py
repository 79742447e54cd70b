"""`python -m studies.voc --data VOCdevkit`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
from typer import Option

from leastpath.commands.run_folder import default_folder
from studies.voc.backbones import BACKBONES, DEFAULT
from studies.voc.config import OUTPUTS, PAPER_METHODS, RIVALS, VocConfig
from studies.voc.data import download_voc, open_voc
from studies.voc.experiment import run_voc
from studies.voc.methods import OWN


def command(
    data: Annotated[Path, Option(help="VOCdevkit, or the folder of a year in it, as published.")],
    out: Annotated[Path | None, Option(help="Folder for the results; out/voc by default.")] = None,
    resume: Annotated[bool, Option(help="Go on with an interrupted run in the same folder.")] = False,
    download: Annotated[bool, Option(help="Fetch VOC 2012 (2 GB) into --data first.")] = False,
    images: Annotated[int, Option(help="Validation images to explain.")] = 100,
    skip: Annotated[int, Option(help="Shuffled images to leave out before these.")] = 0,
    size: Annotated[int, Option(help="Side of the images, in pixels.")] = 128,
    backbone: Annotated[str, Option(help=f"Frozen network: {', '.join(BACKBONES)}.")] = DEFAULT,
    weights: Annotated[Path | None, Option(help="Its weights, .safetensors or .pth; else downloaded.")] = None,
    methods: Annotated[
        str,
        Option(
            help=f"Names of `leastpath methods`, with commas; also {', '.join(OWN)}, and `rivals` for all methods of "
            "others that have come since the paper."
        ),
    ] = ",".join(PAPER_METHODS),
    output: Annotated[str, Option(help=f"What is explained: {', '.join(OUTPUTS)}.")] = "log_softmax",
    baseline: Annotated[str, Option(help="black, white or grey.")] = "black",
    steps: Annotated[int, Option(help="Gradients of methods with a fixed number of them.")] = 50,
    budget: Annotated[int, Option(help="Gradients an image of the geodesic methods.")] = 500,
    seed: Annotated[int, Option(help="Of the choice of images, the training and the methods.")] = 0,
    minutes: Annotated[float | None, Option(help="Stop after that long and report what is finished.")] = None,
    cache: Annotated[Path | None, Option(help="Folder of features that several runs share.")] = None,
    threads: Annotated[int | None, Option(help="Threads of torch.")] = None,
) -> None:
    """Pascal VOC: train a head on frozen features, explain, mask; the paper's Table 2 beside ours.

    Writes a folder with raw results, figures and report.html.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    if download:
        data = download_voc(data)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    chosen = tuple(dict.fromkeys(one for name in names for one in (RIVALS if name == "rivals" else (name,))))
    config = VocConfig(
        images, skip, size, backbone, None if weights is None else str(weights), output, baseline, chosen, steps,
        budget, seed,
    )  # fmt: skip
    folder = default_folder("voc", resume) if out is None else out
    run = run_voc(open_voc(data), config, folder, resume=resume, minutes=minutes, cache=cache)
    print(run.path / "report.html")
