"""The published layout is read as it is, and every way to get it wrong has a sentence."""

import hashlib
import tarfile

import pytest
import torch
from PIL import Image
from tiny_voc import tiny_voc

from studies.voc.data import CLASSES, Archive, download_voc, open_voc


@pytest.fixture(scope="module")
def devkit(tmp_path_factory):
    return tiny_voc(tmp_path_factory.mktemp("voc"), train=3, val=2)


def test_reads_names_labels_and_images_of_the_published_layout(devkit):
    for folder in (devkit, devkit / "VOC2012", devkit.parent):
        data = open_voc(folder)
        assert data.names("train") == ["train_000", "train_001", "train_002"]
    labels = data.labels(data.names("train"))
    assert labels.shape == (3, 20) and labels.sum(1).tolist() == [1, 1, 1]
    assert labels[0, CLASSES.index("cat")] == 1 and labels[1, CLASSES.index("dog")] == 1
    images = data.images(data.names("val"), 16)
    assert images.shape == (2, 3, 16, 16) and images.min() >= 0 and images.max() <= 1


def test_masks_lie_where_the_object_is_after_the_same_crop(devkit):
    data = open_voc(devkit)
    image, mask = data.images(["val_000"], 16)[0], data.mask("val_000", 16)
    bright = image.mean(0) > 0.7
    assert set(mask.unique().tolist()) == {0, CLASSES.index("cat") + 1}
    assert ((mask > 0) == bright).float().mean() > 0.93  # the picture is interpolated, the mask is not


def test_no_mask_is_none_and_another_picture_is_refused(devkit):
    data = open_voc(devkit)
    assert data.mask("nobody", 16) is None
    Image.new("RGB", (8, 8)).save(data.root / "SegmentationClass" / "rgb.png")
    with pytest.raises(ValueError, match="expected the published palette picture"):
        data.mask("rgb", 16)


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda root: (root / "JPEGImages" / "val_000.jpg").unlink(), "1 of the 2 images .* not in .*JPEGImages"),
        (lambda root: (root / "Annotations" / "val_001.xml").unlink(), "not in .*Annotations, first val_001"),
        (lambda root: (root / "ImageSets" / "Main" / "val.txt").unlink(), "val.txt is missing"),
        (lambda root: (root / "ImageSets" / "Main" / "val.txt").write_text("\n"), "names no image"),
        (lambda root: (root / "ImageSets" / "Main" / "val.txt").write_text("val_000\nval_000\n"), "val_000 twice"),
        (lambda root: (root / "JPEGImages").rename(root / "Images"), "expected VOCdevkit/VOC2012"),
    ],
)  # fmt: skip
def test_a_broken_folder_is_refused_with_what_is_missing(tmp_path, break_it, sentence):
    devkit = tiny_voc(tmp_path, train=2, val=2)
    break_it(devkit / "VOC2012")
    with pytest.raises(ValueError, match=sentence):
        open_voc(devkit)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<annotation><object>", "cannot be read as an annotation"),
        ("<annotation/>", "has no object"),
        ("<annotation><object><name>unicorn</name></object></annotation>", "'unicorn', which is none of VOC's twenty"),
    ],
)
def test_a_broken_annotation_is_refused(tmp_path, text, sentence):
    devkit = tiny_voc(tmp_path, train=1, val=1)
    (devkit / "VOC2012" / "Annotations" / "val_000.xml").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        open_voc(devkit).labels(["val_000"])


def test_a_broken_picture_is_refused(tmp_path):
    devkit = tiny_voc(tmp_path, train=1, val=1)
    (devkit / "VOC2012" / "JPEGImages" / "val_000.jpg").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        open_voc(devkit).images(["val_000"], 16)


@pytest.fixture
def archive(tmp_path):
    """A published archive, at a file:// address."""
    source = tmp_path / "published"
    source.mkdir()
    devkit = tiny_voc(source, train=2, val=1)
    file = source / "VOCtrainval.tar"
    with tarfile.open(file, "w") as tar:
        tar.add(devkit, "VOCdevkit")
    return Archive(file.as_uri(), hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest())


def test_download_checks_and_unpacks_and_does_not_fetch_twice(tmp_path, archive):
    found = download_voc(tmp_path / "data" / "VOCdevkit", archive)
    assert found == tmp_path / "data" / "VOCdevkit"
    assert open_voc(found).names("val") == ["val_000"]
    gone = Archive("file:///nowhere/VOCtrainval.tar", archive.md5)  # never opened: the archive is there
    assert open_voc(download_voc(tmp_path / "data", gone)).names("val") == ["val_000"]


def test_download_of_something_else_leaves_nothing_behind(tmp_path, archive):
    wrong = Archive(archive.url, "0" * 32)
    with pytest.raises(ValueError, match=r"has the checksum .*, expected 0000"):
        download_voc(tmp_path / "data", wrong)
    assert list((tmp_path / "data").iterdir()) == []


def test_download_without_network_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"could not be fetched .* pass --data VOCdevkit"):
        download_voc(tmp_path, Archive("file:///nowhere/VOC.tar", "0" * 32))


def test_an_archive_that_leads_out_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "evil.tar"
    (tmp_path / "x").write_text("x")
    with tarfile.open(file, "w") as tar:
        tar.add(tmp_path / "x", "../outside")
    evil = Archive(file.as_uri(), hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest())
    with pytest.raises(ValueError, match="cannot be unpacked"):
        download_voc(tmp_path / "data", evil)
    assert not (tmp_path / "outside").exists()


def test_labels_are_floats_for_the_loss(devkit):
    assert open_voc(devkit).labels(["val_000"]).dtype == torch.float32
