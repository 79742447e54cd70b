"""Sources: every kind of file gives the rows that were written to it, in any part, and says what it cannot read."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import toy_jobs
from leastpath.jobs import sources
from leastpath.jobs.sources import Arrays, Items, Pictures, Rows, Source, Table, source_of

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")

N = 23
DATA = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
LABELS = np.arange(N) % 4


def doubled(inputs):
    return inputs * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from safetensors.numpy import save_file

    root = tmp_path_factory.mktemp("sources")
    frame = pd.DataFrame(DATA, columns=["a", "b", "c"]).assign(label=LABELS)
    frame.to_csv(root / "rows.csv", index=False)
    (root / "no newline.csv").write_bytes((root / "rows.csv").read_bytes()[:-1])
    frame.to_parquet(root / "rows.parquet", row_group_size=5)
    pd.DataFrame({"x": list(DATA), "label": LABELS}).to_parquet(root / "lists.parquet")
    np.savez(root / "rows.npz", x=DATA, label=LABELS)
    np.save(root / "rows.npy", DATA)
    save_file({"x": DATA, "label": LABELS}, root / "rows.safetensors")
    for kind in ("parquet", "npz", "safetensors"):
        (root / kind).mkdir()
        for part, (low, high) in enumerate([(0, 7), (7, 7), (7, 8), (8, N)] if kind != "npz" else [(0, 7), (7, N)]):
            file = root / kind / f"part-{part}.{kind}"
            if kind == "parquet":
                frame[low:high].to_parquet(file)
            elif kind == "npz":
                np.savez(file, x=DATA[low:high], label=LABELS[low:high])
            else:
                save_file({"x": DATA[low:high], "label": LABELS[low:high]}, file)
    return root


KINDS = [
    ("rows.csv", {"target": "label"}),
    ("no newline.csv", {"target": "label"}),
    ("rows.parquet", {"target": "label"}),
    ("lists.parquet", {"target": "label"}),
    ("parquet", {"target": "label"}),
    ("rows.npz", {"inputs": "x", "target": "label"}),
    ("npz", {"inputs": "x", "target": "label"}),
    ("rows.npy", {}),
    ("rows.safetensors", {"inputs": "x", "target": "label"}),
    ("safetensors", {"inputs": "x", "target": "label"}),
]


@pytest.mark.parametrize(("name", "settings"), KINDS, ids=[name for name, _ in KINDS])
@pytest.mark.parametrize("stride", [4, 1024])
def test_every_part_is_what_was_written(folder, name, settings, stride, monkeypatch):
    monkeypatch.setattr(sources, "CSV_STRIDE", stride)
    source = source_of(folder / name, **settings)
    assert isinstance(source, Source) and len(source) == N
    for low, high in [(0, N), (0, 1), (6, 9), (4, 5), (3, 4), (N - 1, N), (7, 20)]:
        rows = source.read(low, high)
        np.testing.assert_array_equal(rows.inputs, DATA[low:high])
        assert rows.index == list(range(low, high)) and rows.inputs.dtype == torch.float32
        if settings.get("target"):
            assert rows.targets.tolist() == LABELS[low:high].tolist()


@pytest.mark.parametrize(("name", "settings"), KINDS, ids=[name for name, _ in KINDS])
def test_a_source_travels_in_few_bytes_and_says_the_same_elsewhere(folder, name, settings):
    source = source_of(folder / name, **settings)
    what = source.what
    there = pickle.loads(data := pickle.dumps(source))
    assert len(data) < 1000 and there.what == what
    np.testing.assert_array_equal(there.read(2, 5).inputs, DATA[2:5])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_parts_of_files_cover_every_row_once(sizes, data):
    starts = np.cumsum([0, *sizes])
    stop = data.draw(st.integers(0, int(starts[-1])))
    start = data.draw(st.integers(0, stop))
    rows = [int(starts[part]) + i for part, low, high in sources._parts(starts, start, stop) for i in range(low, high)]
    assert rows == list(range(start, stop))


def test_columns_are_chosen_and_transformed(folder):
    rows = source_of(folder / "rows.csv", features=["c", "a"], transform=doubled).read(0, 4)
    np.testing.assert_allclose(rows.inputs, 2 * DATA[:4, [2, 0]])
    by_name = Table(folder / "rows.csv", ["c", "a"], transform="toy_jobs:line_of")
    assert by_name.what != Table(folder / "rows.csv", ["c", "a"]).what


def test_what_tells_changed_files_apart(folder, tmp_path):
    np.save(tmp_path / "x.npy", DATA)
    before = Arrays(tmp_path).what
    np.save(tmp_path / "y.npy", DATA)
    assert Arrays(tmp_path).what != before and Arrays(tmp_path / "x.npy").what != Arrays(folder / "rows.npy").what


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda f: source_of(f / "nothing"), "does not exist"),
        (source_of, "holds files of kinds"),
        (lambda f: source_of(f / "rows.csv", features=["z"]).read(0, 1), "has no column 'z'"),
        (lambda f: source_of(f / "rows.csv", target="a").read(0, 1), "expected whole numbers"),
        (lambda f: source_of(f / "rows.npz", inputs="z").read(0, 1), "has no array 'z'"),
        (lambda f: source_of("no.such.module:x").read(0, 1), "cannot be imported"),
        (lambda f: source_of("toy_jobs:nothing").read(0, 1), "cannot be imported"),
        (lambda f: len(source_of(3)), "expected a dataset"),
        (lambda f: source_of(Items([1]), settings={}), "belong to the source"),
        (lambda f: source_of(f / "rows.csv", transform="toy_jobs").read(0, 1), "is not an import path"),
    ],
)
def test_mistakes_are_said(folder, make, match):
    with pytest.raises(ValueError, match=match):
        make(folder)


def test_words_in_a_table_and_empty_files_are_said(tmp_path):
    (tmp_path / "words.csv").write_text("a,b\n1,x\n2,y\n")
    with pytest.raises(ValueError, match=r"columns \['b'\] of .* hold no numbers"):
        source_of(tmp_path / "words.csv").read(0, 2)
    (tmp_path / "one word.csv").write_text("a,b\n" + "1,2\n" * 150 + "3,x\n4,5\n")
    inputs = source_of(tmp_path / "one word.csv").read(149, 152).inputs
    assert inputs[:, 0].tolist() == [1, 3, 4] and torch.isnan(inputs[1, 1]) and torch.isfinite(inputs[[0, 2]]).all()
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="holds no rows"):
        len(source_of(tmp_path / "empty.csv"))
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="holds no data"):
        source_of(tmp_path / "none")


@pytest.mark.parametrize("stride", [2, 1024])
@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n", "\r\n\r\n"])
def test_blank_lines_of_a_csv(tmp_path, monkeypatch, stride, ending):
    """At the end they are no rows; between rows they are one that holds nothing."""
    monkeypatch.setattr(sources, "CSV_STRIDE", stride)
    (tmp_path / "rows.csv").write_bytes(b"a,b\n1,2\n\n3,4\n5,6" + ending.encode())
    source = source_of(tmp_path / "rows.csv")
    inputs = torch.cat([source.read(0, 2).inputs, source.read(2, 4).inputs])
    assert len(source) == 4 and inputs[[0, 2, 3]].tolist() == [[1, 2], [3, 4], [5, 6]] and inputs[1].isnan().all()


@pytest.mark.parametrize("stride", [2, 1024])
@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_cells_with_line_breaks_and_commas(tmp_path, monkeypatch, stride, ending):
    monkeypatch.setattr(sources, "CSV_STRIDE", stride)
    names = ["plain", '"two\nlines"', '"a, comma"', '"a ""mark"""', '"\n\n"']
    lines = [f"{name},{i}.5,{i}" for i, name in enumerate(names)]
    (tmp_path / "rows.csv").write_text('"a\nname",b,label\n' + "\n".join(lines) + ending, newline="")
    source = source_of(tmp_path / "rows.csv", features=["b"], target="label")
    assert len(source) == 5 and source.read(0, 5).inputs[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert [source.read(i, i + 1).targets.tolist() for i in range(5)] == [[i] for i in range(5)]


@pytest.mark.parametrize("stride", [2, 1024])
@pytest.mark.parametrize("row", ["7,8,9", "7"])
def test_a_row_with_more_or_fewer_cells_is_named_and_costs_no_other(tmp_path, monkeypatch, stride, row):
    monkeypatch.setattr(sources, "CSV_STRIDE", stride)
    (tmp_path / "rows.csv").write_text(f"a,b\n1,2\n3,4\n5,6\n{row}\n0,1\n")
    source = Table(tmp_path / "rows.csv", ["b"])
    cells = row.count(",") + 1
    with pytest.raises(ValueError, match=rf"row 3 of .*rows.csv has {cells} cells, expected 2"):
        source.read(2, 5)
    assert source.read(0, 3).inputs.tolist() == [[2], [4], [6]] and source.read(4, 5).inputs.tolist() == [[1]]


@pytest.mark.parametrize(
    ("text", "features", "match"),
    [
        ('a,b\n1,2\n"3,4\n5,6\n', None, "quotation mark that is never closed"),
        ('a,b\n5" pipe,2\n6" pipe,4\n7,8\n', ["b"], r"rows 0 to 0 of .* are 2 to a reader of CSV"),
        ("a,b\r1,2\r3,4\n", None, "holds no rows"),
        ("a,a\n1,2\n", None, "has 2 columns 'a'"),
    ],
)
def test_files_that_two_readers_would_count_differently_are_refused(tmp_path, text, features, match):
    (tmp_path / "rows.csv").write_text(text, newline="")
    with pytest.raises(ValueError, match=match):
        source_of(tmp_path / "rows.csv", features=features).read(0, 1)


def test_cells_are_read_as_python_reads_numbers(tmp_path):
    """Also where decimals come late, and where a row is longer than a block of the reader."""
    cells = [".5", "5.", "+1.5", " 2 ", "1e-3", "-0", "12345678901234567890", "0.1"]
    (tmp_path / "rows.csv").write_text("a\n" + "1\n" * 3000 + "\n".join(cells))
    inputs = Table(tmp_path / "rows.csv").read(0, 3008).inputs[:, 0]
    np.testing.assert_array_equal(inputs, np.float32([1] * 3000 + [float(cell) for cell in cells]))
    (tmp_path / "flags.csv").write_text("a,b,c\nTrue,1,\nFalse,inf,NA\n")
    np.testing.assert_array_equal(
        Table(tmp_path / "flags.csv").read(0, 2).inputs, [[1, 1, np.nan], [0, np.inf, np.nan]]
    )
    names = [f"column{i}" for i in range(10_000)]
    cells = [f"{i}.25{'0' * 120}" for i in range(10_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(cells) + "\n")
    np.testing.assert_array_equal(
        Table(tmp_path / "wide.csv").read(0, 1).inputs[0], np.arange(10_000) + np.float32(0.25)
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_empty_cells_get_the_mean_or_a_number_or_are_left_to_a_transform(tmp_path, kind, monkeypatch):
    """Oracle: by hand, in every part of the table; a word is no empty cell, and a row of nothing stays one."""
    frame = pd.DataFrame({"a": [1.0, None, 3.0, None, 8.0], "b": [4.0, 5, None, None, 6]})
    getattr(frame, f"to_{kind}")(file := tmp_path / f"rows.{kind}", index=False)
    monkeypatch.setattr(sources, "BLOCK", 2)

    def numbers(**of):
        return torch.cat([source_of(file, **of).read(i, i + 1).inputs for i in (0, 1, 2, 4)]).tolist()

    assert numbers() == numbers(missing="mean") == [[1, 4], [4, 5], [3, 5], [8, 6]]
    assert numbers(missing=-1) == [[1, 4], [-1, 5], [3, -1], [8, 6]]
    assert source_of(file).read(3, 4).inputs.isnan().all()
    seen = source_of(file, transform=lambda x: torch.cat([x.nan_to_num(), x.isnan().float()], 1)).read(1, 2).inputs
    assert seen.tolist() == [[0, 5, 1, 0]]
    with pytest.raises(ValueError, match=r"missing='middle' must be one of \['mean'\] or a number, or None"):
        source_of(file, missing="middle")


def test_what_stands_in_for_empty_cells_knows_nothing_of_rows_that_cannot_be_read(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n,3\n5,6,7\ninf,8\n")
    assert source_of(tmp_path / "rows.csv").read(1, 2).inputs.tolist() == [[1, 3]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_without_a_label_is_one_that_cannot_be_read(tmp_path, kind):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "label": [0, None, 2, 1.5]})
    getattr(frame, f"to_{kind}")(tmp_path / f"rows.{kind}", index=False)
    rows = source_of(tmp_path / f"rows.{kind}", target="label").read(0, 4)
    assert rows.index == [0, 2] and rows.inputs[:, 0].tolist() == [1, 3] and rows.targets.tolist() == [0, 2]
    assert rows.errors == {
        1: "the label in the column 'label' is nan, expected a whole number",
        3: "the label in the column 'label' is 1.5, expected a whole number",
    }


ITEMS = [  # item, input, label
    ((torch.ones(2),), [1, 1], None),
    ((torch.ones(2), 3), [1, 1], 3),
    ([torch.ones(2), torch.tensor([3])], [1, 1], 3),
    ((np.ones(2), np.int64(3)), [1, 1], 3),
    ((torch.ones(2), torch.tensor(0.7)), [1, 1], None),  # the number that a regression predicts
    ((torch.ones(2), None), [1, 1], None),
    ([0.25, 1.5], [0.25, 1.5], None),
    ([3, 4], [3, 4], None),
    ((0.25, 1.5), [0.25, 1.5], None),
    ([0.25], [0.25], None),
    ([[1, 2], [3, 4]], [[1, 2], [3, 4]], None),
]


@pytest.mark.parametrize(("item", "x", "label"), ITEMS)
def test_an_item_is_an_input_or_an_input_with_a_label(item, x, label):
    rows = source_of([item, item]).read(0, 2)
    assert rows.inputs.tolist() == [x, x] and rows.index == [0, 1] and not rows.errors
    assert rows.targets is None if label is None else rows.targets.tolist() == [label, label]


def test_items_that_are_no_numbers_cost_nobody_else():
    rows = source_of([(torch.ones(2), 0), ("words", 1), (torch.zeros(2), 3)]).read(0, 3)
    assert rows.index == [0, 2] and rows.targets.tolist() == [0, 3] and list(rows.errors) == [1]


def test_pictures_by_folder_with_an_unreadable_one(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i, name in enumerate(["cat/1.png", "cat/2.png", "dog/1.png", "dog/bad.jpg"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pixels = np.full((30, 40, 3), 40 * i, np.uint8)
        image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "dog/bad.jpg").write_bytes((tmp_path / "dog/bad.jpg").read_bytes()[:100])
    source = source_of(tmp_path, size=16, target="folder")
    assert isinstance(source, Pictures) and len(source) == 4
    rows = source.read(0, 4)
    assert rows.inputs.shape == (3, 3, 16, 16) and rows.names == ["cat/1.png", "cat/2.png", "dog/1.png"]
    assert rows.targets.tolist() == [0, 0, 1] and list(rows.errors) == [3] and "bad.jpg" in rows.errors[3]
    torch.testing.assert_close(rows.inputs[1], torch.full((3, 16, 16), 40 / 255))
    own = source_of(tmp_path, read_picture=lambda file: torch.ones(3, 2, 2)).read(1, 3)
    assert own.inputs.shape == (2, 3, 2, 2) and own.targets is None
    with pytest.raises(ValueError, match='must be "folder"'):
        source_of(tmp_path, target="label").read(0, 1)


def test_datasets_by_object_and_by_name():
    source = source_of(toy_jobs.Numbered(6, unreadable=(1,)))
    rows = source.read(0, 3)
    assert (
        rows.index == [0, 2]
        and rows.targets.tolist() == [0, 2]
        and rows.errors == {1: "OSError: this row is unreadable"}
    )
    named = source_of("toy_jobs:numbered", settings={"n": 5})
    assert len(named) == 5 and pickle.loads(pickle.dumps(named)).what == named.what
    assert source_of([torch.ones(2), torch.zeros(2)]).read(0, 2).targets is None
    assert source_of(toy_jobs.Numbered(1, unreadable=(0,))).read(0, 1).inputs is None
    tensors = torch.utils.data.TensorDataset(torch.ones(3, 2), torch.arange(3))
    assert source_of(tensors).read(1, 3).targets.tolist() == [1, 2]


def test_rows_are_named_by_their_numbers():
    assert Rows(torch.ones(2, 1), [4, 5]).names == ["4", "5"]
