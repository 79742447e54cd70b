"""Pascal VOC as it is published: JPEGImages, Annotations, ImageSets, and segmentation masks where there are some."""

from __future__ import annotations

import hashlib
import tarfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from xml.etree import ElementTree

import numpy as np
import torch
from torch import Tensor

from leastpath.features.images import read_image, square_crop

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
VOID = 255  # in the masks: the seam around an object, which belongs to no class
YEARS = ("VOC2012", "VOC2007")
LAYOUT = "VOCdevkit/VOC2012/{JPEGImages, Annotations, ImageSets/Main/{train,val}.txt}"


@dataclass(frozen=True)
class Archive:
    """A published file: where it is, and the checksum its publisher's users agree on."""

    url: str
    md5: str


PUBLISHED = Archive(
    "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd"
)


@dataclass(frozen=True)
class VocData:
    """A checked VOC folder. Make one with `open_voc`.

    Example:
        >>> data = open_voc("VOCdevkit")  # doctest: +SKIP
        >>> data.labels(data.names("val")[:2]).shape  # doctest: +SKIP
        torch.Size([2, 20])
    """

    root: Path
    """The year's folder, which holds JPEGImages."""

    def names(self, split: str) -> list[str]:
        """The names of the images of "train" or "val", in the published order."""
        file = self.root / "ImageSets" / "Main" / f"{split}.txt"
        if not file.is_file():
            raise ValueError(f"{file} is missing: the folder should hold {LAYOUT}")
        return [line.split()[0] for line in file.read_text().splitlines() if line.strip()]

    def picture(self, name: str) -> Path:
        """The file of an image."""
        return self.root / "JPEGImages" / f"{name}.jpg"

    def images(self, names: Sequence[str], size: int) -> Tensor:
        """(n, 3, size, size) in [0, 1]: short side to size / 0.875, centre crop."""
        return torch.cat([read_image(self.picture(name), size) for name in names])

    def labels(self, names: Sequence[str]) -> Tensor:
        """(n, 20) one where an object of that class is annotated."""
        labels = torch.zeros(len(names), len(CLASSES))
        for row, name in enumerate(names):
            labels[row, self._classes(name)] = 1
        return labels

    def mask(self, name: str, size: int) -> Tensor | None:
        """(size, size) of classes plus one, 0 for background and 255 for seams; None where none is published."""
        from PIL import Image

        file = self.root / "SegmentationClass" / f"{name}.png"
        if not file.is_file():
            return None
        with Image.open(file) as mask:
            if mask.mode != "P":
                raise ValueError(f"{file} is a {mask.mode} picture, expected the published palette picture")
            cropped = square_crop(mask, size, Image.Resampling.NEAREST)
            return torch.from_numpy(np.asarray(cropped, np.uint8).copy())

    def _classes(self, name: str) -> list[int]:
        file = self.root / "Annotations" / f"{name}.xml"
        try:
            objects = [node.findtext("name", "") for node in ElementTree.parse(file).getroot().iter("object")]
        except (ElementTree.ParseError, OSError) as error:
            raise ValueError(f"{file} cannot be read as an annotation: {error}") from error
        unknown = sorted(set(objects) - set(CLASSES))
        if unknown:
            raise ValueError(f"{file} names the class {unknown[0]!r}, which is none of VOC's twenty")
        if not objects:
            raise ValueError(f"{file} has no object: every image of VOC has at least one")
        return [CLASSES.index(name) for name in objects]


def open_voc(folder: str | Path, splits: Sequence[str] = ("train", "val")) -> VocData:
    """Find and check a VOC folder: VOCdevkit, or the folder of a year inside it.

    Every image of the splits must have its picture and its annotation. A subset is fine: shorten ImageSets.

    Example:
        >>> open_voc("nowhere")
        Traceback (most recent call last):
        ...
        ValueError: nowhere is no folder: pass --data VOCdevkit, or add --download to fetch it there
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: pass --data VOCdevkit, or add --download to fetch it there")
    roots = [folder, *(folder / year for year in YEARS), *(folder / "VOCdevkit" / year for year in YEARS)]
    root = next((root for root in roots if (root / "JPEGImages").is_dir()), None)
    if root is None:
        found = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise ValueError(f"{folder} holds {found}, expected {LAYOUT}: pass the folder VOCdevkit or VOCdevkit/VOC2012")
    data = VocData(root)
    for split in splits:
        _check_split(data, split)
    return data


def _check_split(data: VocData, split: str) -> None:
    names = data.names(split)
    if not names:
        raise ValueError(f"{data.root / 'ImageSets' / 'Main' / split}.txt names no image")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{split}.txt names {twice} twice: each image counts once")
    for kind, file_of in (
        ("JPEGImages", data.picture),
        ("Annotations", lambda n: data.root / "Annotations" / f"{n}.xml"),
    ):
        missing = [name for name in names if not file_of(name).is_file()]
        if missing:
            raise ValueError(
                f"{len(missing)} of the {len(names)} images of {split}.txt are not in {data.root / kind}, first "
                f"{missing[0]}: unpack the archive again, or shorten {split}.txt to what is there"
            )


def download_voc(folder: str | Path, archive: Archive = PUBLISHED) -> Path:
    """Fetch the published archive into `folder` (2 GB), check it, unpack it. One that is there is not fetched again.

    The archive is written under another name until its checksum is right, so an interruption leaves no half archive
    that a later call would trust.

    Example:
        >>> download_voc("data")  # doctest: +SKIP
        PosixPath('data/VOCdevkit')
    """
    folder = Path(folder)
    folder = folder.parent if folder.name == "VOCdevkit" else folder  # the archive brings that name itself
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / archive.url.rsplit("/", 1)[-1]
    if not file.is_file() or _md5(file) != archive.md5:
        _fetch(archive, file)
    _unpack(file, folder)
    return folder / "VOCdevkit"


def _fetch(archive: Archive, file: Path) -> None:
    partial = file.with_suffix(".part")
    try:
        with urllib.request.urlopen(archive.url, timeout=60) as source, partial.open("wb") as target:
            while chunk := source.read(1 << 20):
                target.write(chunk)
    except (URLError, OSError) as error:
        raise ValueError(
            f"{archive.url} could not be fetched ({error}): fetch it elsewhere, unpack it, and pass --data VOCdevkit"
        ) from error
    if (got := _md5(partial)) != archive.md5:
        partial.unlink()
        raise ValueError(f"what came from {archive.url} has the checksum {got}, expected {archive.md5}: try again")
    partial.replace(file)


def _md5(file: Path) -> str:
    with file.open("rb") as opened:  # of the publisher's choosing: it guards against accidents, not against attacks
        return hashlib.file_digest(opened, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _unpack(file: Path, folder: Path) -> None:
    """The archive's files; its filter refuses names that lead out of the folder."""
    try:
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise ValueError(f"{file} cannot be unpacked: {error}") from error
