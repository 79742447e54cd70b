"""A catalogue of faults in jobs and stored results: (group, name, call, expected outcome), one row a case.

A call gets an empty folder. The outcome is the words of a ValueError, or an exit code of `leastpath run`. Nothing may
be silently wrong: what is not refused must be right.
"""

import functools
import os
import shutil
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import leastpath as lp
import toy_jobs
from leastpath import jobs
from leastpath._support.store import Store, StoreMismatch
from leastpath.commands import cli
from leastpath.evaluation import compare
from leastpath.jobs import driver
from leastpath.jobs.lock import FolderInUse
from leastpath.jobs.shards import Worker

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")
X = torch.linspace(0.1, 1, 24).reshape(6, 4)
explain = functools.partial(
    jobs.explain, model_factory=toy_jobs.summing, method=toy_jobs.four_steps_of, show=False, shard_size=2, batch_size=2
)


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    call: object
    expected: str | int

    def __str__(self):
        return f"{self.group}: {self.name}"


# ---- settings ----------------------------------------------------------------------------------------------------


def setting(expected, **settings):
    # A function's repr has an address, and names of cases must not differ between processes.
    name = ", ".join(f"{key}={getattr(value, '__name__', None) or repr(value)}" for key, value in settings.items())
    return Case("settings", name, lambda folder: explain(list(X), out=folder, **settings), expected)


def none_factory():
    return None


SETTINGS = [
    setting("returned NoneType", model_factory=none_factory),
    setting("model_factory=3 must be a word or a function", model_factory=3),
    setting("returned str", model_factory=lambda: "model"),
    setting("seed='lucky' must be a whole number", seed="lucky"),
    setting("seed=0.5 must be a whole number", seed=0.5),
    setting("workers=-3 must be at least 1", executor="processes", workers=-3),
    setting("workers='two' must be a whole number", executor="processes", workers="two"),
    setting("max_retries=-1 must be at least 0", executor="processes", max_retries=-1),
    setting("start_method='magic' is unknown", executor="processes", start_method="magic"),
    setting("in_flight=-1 must be at least 1", executor="ray", in_flight=-1),
    setting("num_cpus='many' must be a number", executor="ray", num_cpus="many"),
    setting("num_gpus=-1 must be at least 0", executor="ray", num_gpus=-1),
    setting("address=3 must be a word", executor="ray", address=3),
    setting("executor=3 is unknown", executor=3),
    setting("executor='cloud' is unknown", executor="cloud"),
    setting("device='gpu' is unknown", device="gpu"),
    setting("device=1.5 must be a word", device=1.5),
    setting("devices of that kind", device="cuda:77"),
    setting("threads=0 must be at least 1", threads=0),
    setting("threads='all' must be", threads="all"),
    setting("fail_fast='yes' must be True or False", fail_fast="yes"),
    setting("shard_size=0 must be", shard_size=0),
    setting("batch_size='big' must be", batch_size="big"),
    setting("keep=3 is unknown", keep=3),
    setting("dtype=16 is unknown", dtype=16),
    setting("dtype='int8' is unknown", dtype="int8"),
    setting("dtype='half-ish' is unknown", dtype="half-ish"),
    setting("target=True must be a whole number", target=True),
    setting("target=-1 must be at least 0", target=-1),
    setting("target=0.5 must be a whole number", target=0.5),
    setting("target='best' must be a whole number or one of", target="best"),
    setting("output='logits' is unknown", output="logits"),
    setting("compares one class", output="logit_margin"),
    setting("magic", baselines="magic"),
    setting("no method is called", method="no_such"),
    setting("method=3 must be a word or a Method", method=3),
    setting("has no setting", method="integrated_gradients", method_settings={"tolerances": 1}),
    setting("method_settings=3 is a int", method_settings=3),
    setting("model_settings='a' is a str", model_settings="a"),
    setting("no setting 'size'", data_settings={"size": 3}),
    setting("data_settings=3 is a int", data_settings=3),
]

# ---- files -------------------------------------------------------------------------------------------------------


def written(name, content=b"", *, cut=None, **settings):
    """A file of data, read as a job would."""

    def call(folder):
        file = folder / name
        content(file) if callable(content) else file.write_bytes(content)
        if cut is not None:
            file.write_bytes(file.read_bytes()[:cut])
        source = jobs.source_of(file, **settings)
        return source.read(0, len(source))

    return call


def npy(array):
    return lambda file: np.save(file, array)


def npz(**arrays):
    return lambda file: np.savez(file, **arrays)


def parquet(file):
    pd.DataFrame({"a": np.arange(1000.0), "b": 1.0}).to_parquet(file)


def safe(file):
    from safetensors.torch import save_file

    save_file({"x": torch.ones(50, 3)}, file)


ROWS = np.ones((5, 3), np.float32)
FILES = [
    Case("files", "truncated npy", written("x.npy", npy(ROWS), cut=90), "x.npy cannot be read as npy"),
    Case("files", "truncated head of npy", written("x.npy", npy(ROWS), cut=20), "x.npy cannot be read as npy"),
    Case("files", "empty npy", written("x.npy"), "x.npy cannot be read as npy"),
    Case("files", "foreign npy", written("x.npy", b"<html>no such page</html>"), "x.npy cannot be read as npy"),
    Case("files", "npy of objects", written("x.npy", npy(np.array([{}, 1], object))), "x.npy cannot be read as npy"),
    Case("files", "npy of words", written("x.npy", npy(np.array(["a", "b"]))), "expected numbers"),
    Case("files", "npy of one number", written("x.npy", npy(np.float32(3))), r"shape \(\), expected numbers"),
    Case("files", "truncated npz", written("x.npz", npz(x=ROWS), cut=100), "x.npz cannot be read as npz"),
    Case("files", "foreign npz", written("x.npz", b"PK not a zip"), "x.npz cannot be read as npz"),
    Case("files", "empty npz", written("x.npz", npz()), "it has none"),
    Case("files", "truncated parquet", written("x.parquet", parquet, cut=400), "x.parquet cannot be read as parquet"),
    Case("files", "foreign parquet", written("x.parquet", b"a,b\n1,2\n"), "x.parquet cannot be read as parquet"),
    Case("files", "truncated safetensors", written("x.safetensors", safe, cut=200), "cannot be read as safetensors"),
    Case("files", "foreign safetensors", written("x.safetensors", b"\xff" * 64), "cannot be read as safetensors"),
    Case("files", "labels of two columns", written("x.npz", npz(x=ROWS, y=ROWS), inputs="x", target="y"),
         r"labels 'y' of .* have shape \(5, 3\), expected \(5,\)"),
    Case("files", "too few labels", written("x.npz", npz(x=ROWS, y=np.ones(4)), inputs="x", target="y"),
         r"shape \(4,\), expected \(5,\)"),
    Case("files", "labels that are no classes",
         written("x.npz", npz(x=ROWS, y=np.full(5, 0.5)), inputs="x", target="y"),
         "no whole numbers"),
    Case("files", "labels that are not there", written("x.npz", npz(x=ROWS), target="y"), "has no array 'y'"),
    Case("files", "CSV with a long row", written("x.csv", b"a,b\n1,2\n1,2,3\n4,5\n"), "row 1 of .* has 3 cells"),
    Case("files", "CSV with an open quotation mark", written("x.csv", b'a,b\n"1,2\n3,4\n'), "never closed"),
    Case("files", "CSV of bytes", written("x.csv", b"a,b\n\xff\xfe,\x00\n1,2\n"), "x.csv|hold no numbers"),
    Case("files", "a number as target", written("x.csv", b"a,b\n1,2\n", target=3), "target=3 must be a word"),
    Case("files", "one word as features", written("x.csv", b"a,b\n1,2\n", features="a"), "features='a' is a str"),
    Case("files", "a number as transform", written("x.csv", b"a,b\n1,2\n", transform=3), "transform=3 must be a word"),
    Case("files", "a setting of another kind of data", written("x.csv", b"a,b\n1,2\n", size=3), "no setting 'size'"),
]  # fmt: skip


# ---- what has changed since --------------------------------------------------------------------------------------


def replaced(name, first, second, **settings):
    """Explain a file, write another in its place, and start the job again."""

    def call(folder):
        file = folder / name
        first(file)
        explain(file, out=folder / "out", data_settings=settings)
        times = file.stat()
        second(file)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        return explain(file, out=folder / "out", data_settings=settings)

    return call


def text(words):
    return lambda file: file.write_text(words)


class Framed:
    """A torch dataset over a data frame."""

    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, i):
        return torch.tensor(self.frame.iloc[i].to_numpy(np.float32))


class FromFile(Framed):
    """A dataset that reads its rows from a file that only it knows."""

    def __init__(self, file):
        self.name = str(file)

    @property
    def frame(self):
        return pd.read_csv(self.name)


def other_frame(folder):
    frame = pd.DataFrame(X.numpy())
    explain(Framed(frame), out=folder / "out")
    return explain(Framed(frame * 2), out=folder / "out")


def other_rows_behind_a_dataset(folder):
    file = folder / "rows.csv"
    pd.DataFrame(X.numpy()).to_csv(file, index=False)
    explain(FromFile(file), out=folder / "out")
    pd.DataFrame(X.numpy() + 1).to_csv(file, index=False)
    return explain(FromFile(file), out=folder / "out")


def edited_module(kind):
    """A data set or transform whose module is edited between two starts."""

    def call(folder):
        name = f"users_{kind}_{folder.name}".replace("-", "_")
        sources = {
            "data": "import torch\ndef rows(): return [torch.ones(2) * {0}] * 3\n",
            "transform": "def rows(x): return x * {0}\n",
        }
        sys.path.insert(0, str(folder))
        np.save(folder / "x.npy", ROWS)
        try:
            for factor in (1, 2):
                (folder / f"{name}.py").write_text(sources[kind].format(factor))
                sys.modules.pop(name, None)
                shutil.rmtree(folder / "__pycache__", ignore_errors=True)
                data = f"{name}:rows" if kind == "data" else folder / "x.npy"
                settings = {} if kind == "data" else {"transform": f"{name}:rows"}
                explain(data, out=folder / "out", data_settings=settings)
        finally:
            sys.path.remove(str(folder))

    return call


def stored(first, second):
    """A comparison with one model, then with another, in the same store."""

    def call(folder):
        for make in (first, second):
            compare([lp.StraightLine()], lp.Score(make()), X, store=folder / "store")

    return call


def in_doubt(folder):
    rows = (n for n in range(3))
    model = lambda: lambda x, held=rows: x.sum(1)  # noqa: E731
    explain(list(X), model_factory=model, out=folder)
    return explain(list(X), model_factory=model, out=folder)


class Tempered(torch.nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self._temperature = temperature

    def forward(self, x):
        return x.sum(1) / self._temperature


def hooked(shift):
    net = Tempered(1.0)
    net.register_forward_hook(lambda module, inputs, output: output * shift)
    return net


CHANGES = [
    Case("changes", "another npy of the same shape", replaced("x.npy", npy(ROWS), npy(2 * ROWS)), "contents"),
    Case("changes", "an edited CSV of the same size",
         replaced("x.csv", text("a,b\n1,2\n3,4\n"), text("a,b\n1,2\n3,5\n")), "contents"),
    Case("changes", "another npz of the same shape", replaced("x.npz", npz(x=ROWS), npz(x=3 * ROWS)), "data"),
    Case("changes", "another frame in a dataset", other_frame, "data"),
    Case("changes", "other rows behind a dataset", other_rows_behind_a_dataset, "row 0 of the data is not what it was"),
    Case("changes", "an edited module of a dataset", edited_module("data"), "data"),
    Case("changes", "an edited module of a transform", edited_module("transform"), "source of transform"),
    Case("changes", "a private attribute", stored(lambda: Tempered(1.0), lambda: Tempered(2.0)), "model"),
    Case("changes", "a forward hook", stored(lambda: hooked(1.0), lambda: hooked(2.0)), "model"),
    Case("changes", "what nobody can describe", in_doubt, "resume=True"),
]  # fmt: skip

CASES = [*SETTINGS, *FILES, *CHANGES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_fault_is_a_sentence(case, tmp_path):
    with pytest.raises(ValueError, match=case.expected) as caught:
        case.call(tmp_path)
    words = str(caught.value)
    assert words and "\n" not in words.strip() and len(words) < 700


def test_settings_are_refused_before_the_first_row(tmp_path, monkeypatch):
    monkeypatch.setattr(Worker, "do", lambda *_: pytest.fail("a row was explained"))
    for i, case in enumerate(SETTINGS):
        with pytest.raises(ValueError, match=case.expected):
            case.call(tmp_path / str(i))


# ---- what may go on ----------------------------------------------------------------------------------------------


def test_the_same_job_goes_on_with_what_nobody_can_describe_if_told(tmp_path):
    with pytest.raises(StoreMismatch):
        in_doubt(tmp_path)
    rows = (n for n in range(3))
    model = lambda: lambda x, held=rows: x.sum(1)  # noqa: E731
    with pytest.raises(StoreMismatch, match="model"):  # another function than before is another model
        explain(list(X), model_factory=lambda: lambda x: x.sum(1), out=tmp_path, resume=True)
    out = tmp_path / "again"
    for _ in range(2):
        assert explain(list(X), model_factory=model, out=out, resume=True).finished


def test_an_untouched_file_is_not_refused(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    for _ in range(2):
        assert explain(tmp_path / "x.npy", out=tmp_path / "out").finished
    os.utime(tmp_path / "x.npy")  # another time, the same bytes
    assert explain(tmp_path / "x.npy", out=tmp_path / "out").finished


@dataclass
class Moody:
    """Rows that a network loses now and then."""

    lost: str

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i in (1, 4) and os.path.exists(self.lost):
            raise TimeoutError(110, "no answer")
        if i == 5:
            raise ValueError("broken for good")
        return X[i]


def test_rows_that_failed_are_tried_again_and_no_others(tmp_path):
    switch = tmp_path / "down"
    switch.touch()
    out = tmp_path / "out"
    method = toy_jobs.Logged4(str(tmp_path / "log"))
    again = functools.partial(explain, Moody(str(switch)), out=out, shard_size=3, batch_size=3, method=method)
    first = again()
    assert first.failed == 3
    assert first.table()["failure"].notna().tolist() == [False, True, False, False, True, True]
    switch.unlink()
    kept, second, third = again(keep_failed=True), again(), again()
    assert kept.failed == 3
    assert second.failed == third.failed == 1 and second.verify() == []
    assert (tmp_path / "log").read_text().split() == ["2", "1", "1", "1"]  # rows of each call: no row twice
    whole = explain(list(X[:5]), out=tmp_path / "whole", shard_size=5)
    torch.testing.assert_close(third.values(0, 5), whole.values(0, 5))
    assert third.values(5, 6).isnan().all()


@pytest.mark.parametrize(("factor", "word"), [(1e6, "large"), (1e-10, "small")])
def test_float16_that_cannot_hold_the_values_is_said(tmp_path, factor, word):
    found = explain([x * (factor if i == 2 else 1) for i, x in enumerate(X)], out=tmp_path, dtype="float16")
    failure = found.table()["failure"]
    assert failure.notna().tolist() == [False, False, True, False, False, False]
    assert f"too {word} for dtype='float16'" in failure[2] and found.values(2, 3).isnan().all()
    assert torch.isfinite(found.values(3, 6)).all()
    with pytest.raises(ValueError, match=f"row 2: .* too {word}"):
        explain([x * (factor if i == 2 else 1) for i, x in enumerate(X)], out=tmp_path / "b", dtype="float16",
                fail_fast=True)  # fmt: skip


def test_threads_are_as_before(tmp_path):
    before = torch.get_num_threads()
    explain(list(X), out=tmp_path, threads=before + 1)
    assert torch.get_num_threads() == before


# ---- reading back ------------------------------------------------------------------------------------------------


def flipped(file):
    content = bytearray(file.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("read", ["values", "item", "iteration", "table"])
def test_an_altered_shard_is_not_read(tmp_path, read):
    explain(list(X), out=tmp_path)
    found = jobs.open(tmp_path)
    flipped(found.shards[1].parquet if read == "table" else found.shards[1].values)
    reads = {
        "values": lambda: found.values(0, 6),
        "item": lambda: found[2],
        "iteration": lambda: list(found),
        "table": found.table,
    }
    with pytest.raises(ValueError, match=r"shard 1 of .* cannot be trusted: .* Start the job again"):
        reads[read]()
    assert found.values(0, 2).shape == (2, 4)  # the others can be read
    with pytest.warns(UserWarning, match="is broken"):
        again = explain(list(X), out=tmp_path)
    assert again.values(0, 6).shape == (6, 4) and len(again.table()) == 6


def test_a_shard_is_checked_once(tmp_path, monkeypatch):
    found = explain(list(X), out=tmp_path)
    found.values(0, 6)
    monkeypatch.setattr(Store, "fault", lambda *_: pytest.fail("checked again"))
    found.values(0, 6)


# ---- two drivers of one job --------------------------------------------------------------------------------------


def test_two_drivers_at_once_leave_whole_folders(tmp_path):
    outcomes = []

    def drive(folder, start):
        start.wait()
        try:
            outcomes.append(explain(list(X), out=folder).finished)
        except FolderInUse:
            outcomes.append("in use")

    for number in range(12):
        start = threading.Barrier(2)
        drivers = [threading.Thread(target=drive, args=(tmp_path / str(number), start)) for _ in range(2)]
        for one in drivers:
            one.start()
        for one in drivers:
            one.join()
        found = jobs.open(tmp_path / str(number))
        assert found.finished and found.verify() == [] and len(found.table()) == 6
    assert len(outcomes) == 24 and set(outcomes) <= {True, "in use"} and outcomes.count(True) >= 12


def test_what_another_writer_has_just_written_is_not_tidied_away(tmp_path):
    found = explain(list(X), out=tmp_path)
    young = tmp_path / "units" / "shard-0000000.0123456789ab.parquet"
    young.write_bytes(b"a worker's, whose unit follows")
    old = tmp_path / "units" / "shard-0000001.0123456789ab.parquet"
    old.write_bytes(b"of a worker that died")
    os.utime(old, (1, 1))
    explain(list(X), out=tmp_path)
    assert young.exists() and not old.exists() and found.verify() == []


def test_files_that_a_network_shows_late_are_waited_for(tmp_path, monkeypatch):
    real, hidden = Store.read_record, iter([True] * 2)

    def late(store, key):
        if key.endswith("2") and next(hidden, False):
            raise KeyError(key)
        return real(store, key)

    monkeypatch.setattr(Store, "read_record", late)
    assert explain(list(X), out=tmp_path).finished


def test_a_driver_that_lost_its_folder_says_so(tmp_path, monkeypatch):
    import contextlib

    @contextlib.contextmanager
    def taken(folder):
        yield lambda: True

    monkeypatch.setattr(driver, "hold_folder", taken)
    with pytest.raises(FolderInUse, match="was taken over"):
        explain(list(X), out=tmp_path)


# ---- the command -------------------------------------------------------------------------------------------------

FILE = """
[data]
source = "x.npy"
{data}
[model]
factory = "{factory}"
{model}
[explain]
method = "integrated_gradients"
{explain}
[run]
out = "out"
{run}
"""
MODULE = """
import torch
def make(): return lambda x: x.sum(1)
def from_file(file):
    scale = float(open(file).read())
    return lambda x: x.sum(1) * scale
def failing():
    def model(x): raise RuntimeError("broken model")
    return model
def nothing(): pass
"""


def command(expected, name, *words, factory=None, data="", model="", explain="", run=""):
    def call(folder):
        module = f"users_model_{abs(hash(folder))}"
        (folder / f"{module}.py").write_text(MODULE)
        (folder / "scale.txt").write_text("2.0")
        np.save(folder / "x.npy", ROWS)
        parts = {"data": data, "model": model, "explain": explain, "run": run}
        named = factory or f"{module}:make"
        (folder / "job.toml").write_text(FILE.format(factory=named.replace("MODULE", module), **parts))
        return CliRunner().invoke(cli.application(), ["run", str(folder / "job.toml"), "--no-report", *words])

    return Case("command", name, call, expected)


COMMANDS = [
    command(0, "a model beside the file"),
    command(0, "a file beside the file", factory="MODULE:from_file", model='settings = { file = "scale.txt" }'),
    command("all 5 rows failed", "every row fails", factory="MODULE:failing"),
    command("returned NoneType", "a factory that returns nothing", factory="MODULE:nothing"),
    command("wants to import 'os:system'", "a factory that runs programs", factory="os:system"),
    command("wants to import 'subprocess:run'", "a factory of Python's library", factory="subprocess:run"),
    command("wants to import 'builtins:exec'", "a built-in factory", factory="builtins:exec"),
    command("names functions of a module directly", "a module inside a module", factory="MODULE:torch.os.system"),
    command("wants to import 'torch.nn:Identity'", "a library that is not allowed", factory="torch.nn:Identity"),
    command("wants to import 'os:system'", "a transform", data='transform = "os:system"'),
    command("wants to import 'os:system'", "baselines", explain='baselines = "os:system"'),
    command("wants to import 'os:system'", "an output", explain='output = "os:system"'),
    command("has 'init'", "programs of Ray", run="init = { runtime_env = { setup = 1 } }"),
    command("is not an import path", "a factory without a name", factory="MODULE"),
    command("seed='word' must be a whole number", "a seed that is a word", explain='seed = "word"'),
    command("workers=-3 must be at least 1", "workers", run='executor = "processes"\nworkers = -3'),
    command("does not take", "an unknown setting of the executor", run="speed = 3"),
    command("device='gpu' is unknown", "an unknown device", run='device = "gpu"'),
    command("executor=3 is unknown", "a number for an executor", run="executor = 3"),
    command("method_settings=3", "a number for a table", explain="settings = 3"),
    command("no setting 'columns'", "an unknown setting of the data", data="columns = 3"),
]


@pytest.mark.parametrize("case", COMMANDS, ids=str)
def test_the_command_line(case, tmp_path, recwarn):
    path = list(sys.path)
    result = case.call(tmp_path)
    assert sys.path == path
    if isinstance(case.expected, int):
        assert result.exit_code == case.expected, result.output + repr(result.exception)
        return
    assert result.exit_code != 0 and isinstance(result.exception, ValueError)
    assert case.expected in str(result.exception)


def test_a_module_that_the_command_line_allows(tmp_path):
    case = command(0, "allowed", "--allow", "torch.nn", factory="torch.nn:Flatten", explain="target = 0")
    result = case.call(tmp_path)
    assert result.exit_code == 0, repr(result.exception)


def test_numbers_for_names_in_a_file(tmp_path):
    for line, name in (("source", "x.npy"), ("factory", "a:b"), ("method", "integrated_gradients"), ("out", "out")):
        words = FILE.format(factory="a:b", data="", model="", explain="", run="")
        (tmp_path / "job.toml").write_text(words.replace(f'{line} = "{name}"', f"{line} = 3"))
        with pytest.raises(ValueError, match=rf"{line} = 3 in .* is no word"):
            jobs.Job.from_toml(tmp_path / "job.toml")


UNGUARDED = """
import torch
from leastpath import jobs
def model(): return lambda x: x.sum(1)
jobs.explain([torch.ones(2)] * 4, model, out={out!r}, shard_size=2, executor="processes", workers=2, show=False)
"""


@pytest.mark.slow
def test_a_script_without_a_guard_gets_one_sentence(tmp_path):
    import subprocess

    (tmp_path / "script.py").write_text(UNGUARDED.format(out=str(tmp_path / "out")))
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], check=False, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    assert 'put the call under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


class _TwoCPUs:
    """A cluster of one small node."""

    @staticmethod
    def nodes():
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]


@pytest.mark.parametrize(("executor", "fits"), [(jobs.Ray(num_cpus=64), False), (jobs.Ray(num_gpus=1), False),
                                                (jobs.Ray(num_cpus=2), True)])  # fmt: skip
def test_a_task_that_fits_no_node_is_refused(executor, fits):
    if fits:
        return executor._refuse_too_much(_TwoCPUs)
    with pytest.raises(ValueError, match="no node of the cluster has both"):
        executor._refuse_too_much(_TwoCPUs)
