"""Files that were damaged, or written by somebody else: results, job folders, exports, graphs and configurations."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

import leastpath as lp
import toy_jobs
from fuzz.oracle import Outcome, Wrong, judge
from helpers import flat_points, mlp

X = flat_points(2, 4, 1)

# ---- mutations ---------------------------------------------------------------------------------------------------

OPERATIONS = ("flip a bit", "cut off", "leave out", "insert", "zeros", "repeat", "move")
PLACES = 10_000  # a place in a file is a share of its length, so that a recipe fits every file


def mutate_bytes(content: bytes, operation: str, place: int, size: int) -> bytes:
    at = place * len(content) // PLACES
    before, piece, after = content[:at], content[at : at + size], content[at + size :]
    if operation == "flip a bit":
        return before + bytes([content[at] ^ (1 << size % 8)]) + content[at + 1 :] if at < len(content) else content
    return {
        "cut off": before,
        "leave out": before + after,
        "insert": before + bytes(range(size % 256)) + piece + after,
        "zeros": before + bytes(len(piece)) + after,
        "repeat": before + piece + piece + after,
        "move": after + before + piece,
    }[operation]


OTHERS: dict[str, Any] = {
    "null": None, "true": True, "minus one": -1, "a fraction": 0.5, "huge": 10**30, "text": "text", "empty text": "",
    "list": [], "dict": {}, "missing tensor": {"tensor": "99"}, "another tensor": {"tensor": "0"},
    "tuple": {"tuple": []},
    "two keys": {"tensor": "0", "dict": {}}, "empty path": {"path": []}, "unknown kind": {"magic": 1},
    "status of nothing": {"status": []}, "status of numbers": {"status": [[1, 2]]},
    "nested": {"dict": {"a": {"list": [1]}}},
}  # fmt: skip


def places_in(tree: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a tree of dictionaries and lists."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in parts:
        yield (*here, key)
        yield from places_in(value, (*here, key))


def mutate_tree(tree: Any, place: int, other: str) -> Any:
    """The tree with something else at one place; "gone": with nothing there."""
    changed = copy.deepcopy(tree)
    paths = list(places_in(changed))
    *way, last = paths[place * len(paths) // PLACES]
    inner = changed
    for key in way:
        inner = inner[key]
    if other == "gone":
        del inner[last]
    else:
        inner[last] = copy.deepcopy(OTHERS[other])
    return changed


@st.composite
def recipes(draw: Any) -> dict[str, Any]:
    file = draw(st.sampled_from(list(FILES)))
    place, size = draw(st.integers(0, PLACES - 1)), draw(st.integers(1, 300))
    if FILES[file].fields is not None and draw(st.booleans()):
        return {"file": file, "place": place, "field": draw(st.sampled_from([*OTHERS, "gone"]))}
    return {"file": file, "place": place, "size": size, "operation": draw(st.sampled_from(OPERATIONS))}


def judge_recipe(recipe: dict[str, Any]) -> Outcome:
    kind = FILES[recipe["file"]]
    with tempfile.TemporaryDirectory() as folder:
        kind.write(Path(folder))
        files = sorted(path for path in Path(folder).rglob(kind.pattern) if path.is_file())
        file = files[recipe["place"] % len(files)]
        content = file.read_bytes()
        if "field" in recipe:
            assert kind.fields is not None
            file.write_bytes(kind.fields(content, recipe["place"], recipe["field"]))
        else:
            file.write_bytes(mutate_bytes(content, recipe["operation"], recipe["place"], recipe["size"]))
        return judge(lambda: kind.read(Path(folder)), kind.check)


# ---- the files ---------------------------------------------------------------------------------------------------


class Kind:
    """A kind of file: how it is written and read, what must be true of what was read, how a field is changed."""

    def __init__(
        self,
        write: Callable[[Path], Any],
        read: Callable[[Path], Any],
        check: Callable[[Any], None],
        pattern: str = "*",
        fields: Callable[[bytes, int, str], bytes] | None = None,
    ) -> None:
        self.write, self.read, self.check, self.pattern, self.fields = write, read, check, pattern, fields


@cache
def result(method: str = "elastic_band") -> lp.Attribution:
    return lp.METHODS[method](lp.Score(mlp(), 1), X, max_gradients=60)


def reseal(content: bytes, place: int, other: str) -> bytes:
    """A result's file with a field changed, and a right checksum: as somebody else's program would write it."""
    from safetensors.torch import load, save

    from leastpath.result.files import FORMAT, _checksum

    tensors = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    words = json.dumps(mutate_tree(json.loads(header["__metadata__"]["fields"]), place, other))
    return save(tensors, metadata={"leastpath": FORMAT, "fields": words, "sha256": _checksum(words, tensors)})


def check_loaded(found: Any) -> None:
    """What is loaded can be used: shown, kept again, and its parts fit each other."""
    if not isinstance(found, lp.Attribution):
        raise Wrong(f"the file is read as a {type(found).__name__}")
    if not isinstance(found.values, torch.Tensor) or found.values.shape != X.shape:
        raise Wrong("values of another shape or kind")
    if not isinstance(found.status, tuple) or len(found.status) != len(X):
        raise Wrong("statuses of another length or kind")
    for name in ("completeness_gap", "score_change", "length", "certificate", "support", "p_value", "n_gradients"):
        field = getattr(found, name)
        if not isinstance(field, torch.Tensor) or field.shape != (len(X),):
            raise Wrong(f"{name} of another length or kind")
    repr(found)
    found._repr_html_()


def write_explorer(folder: Path) -> None:
    """What the explorer's page saves."""
    (folder / "saved.leastpath").write_bytes(explorer_file())


@cache
def explorer_file() -> bytes:
    from explorer_subjects import table_source
    from leastpath.explorer.session import Session

    session = Session(table_source())
    try:
        session.start_first()
        for _ in range(600):
            keys = session.state()["results"]
            if keys:
                return session.save(keys[0])
            import time

            time.sleep(0.05)
        raise TimeoutError("the explorer has no first result")
    finally:
        session.close()


def read_explorer(folder: Path) -> Any:
    from leastpath.explorer.saved import SavedSession

    session = SavedSession(lp.load(folder / "saved.leastpath"))
    state = session.state()
    return json.dumps([state, session.result(state["results"][0])])


def write_job(folder: Path) -> None:
    shutil.copytree(job_folder(), folder, dirs_exist_ok=True)


@cache
def job_folder() -> Path:
    folder = Path(tempfile.mkdtemp())
    explain_job(folder)
    return folder


def explain_job(folder: Path) -> Any:
    from leastpath import jobs

    return jobs.explain(
        list(flat_points(5, 4, 1)),
        toy_jobs.summing,
        toy_jobs.four_steps_of,
        folder,
        show=False,
        shard_size=2,
        batch_size=2,
    )


def read_job(folder: Path) -> Any:
    """The values; where a shard is refused, what the next start of the job makes of the folder."""
    from leastpath import jobs

    try:
        found = jobs.open(folder)
        found.table()
        return found.values(0, 5)
    except (ValueError, KeyError) as error:
        again = explain_job(folder)
        if not again.finished or again.verify():
            raise Wrong(f"after {error}, the job started again does not finish") from error
        return again.values(0, 5)


def check_job(found: Any) -> None:
    from leastpath import jobs

    if not torch.equal(found, jobs.open(job_folder()).values(0, 5)):
        raise Wrong("other values than were written")


CONFIG = """
[data]
source = "rows.npy"

[model]
factory = "nets:make"
settings = { width = 3 }

[explain]
method = "integrated_gradients"
target = 1
output = "raw"
seed = 3
settings = { tolerance = 0.05, support = false }

[run]
out = "explained"
shard_size = 4
batch_size = 2
keep = "values"
dtype = "float32"
"""


def write_config(folder: Path) -> None:
    import numpy as np

    (folder / "job.toml").write_text(CONFIG)
    (folder / "nets.py").write_text("from toy_jobs import model\n\ndef make(width=3):\n    return model()\n")
    np.save(folder / "rows.npy", X.numpy())


def change_config(content: bytes, place: int, other: str) -> bytes:
    """A value of the configuration replaced by another one, as TOML writes it."""
    lines = content.decode().splitlines()
    values = [n for n, line in enumerate(lines) if " = " in line]
    at, value = values[place * len(values) // PLACES], OTHERS.get(other)
    written = "{ a = 1 }" if isinstance(value, dict) else "[]" if value is None else json.dumps(value)
    if other == "gone":
        del lines[at]
    else:
        lines[at] = f"{lines[at].partition(' = ')[0]} = {written}"
    return "\n".join(lines).encode()


def read_config(folder: Path) -> Any:
    from leastpath import jobs

    job, _ = jobs.Job.from_toml(folder / "job.toml")
    return job


def check_config(job: Any) -> None:
    if job.n_shards < 1 or job.shard_size < 1 or not isinstance(job.seed, int):
        raise Wrong("a job without shards")


def write_graph(folder: Path) -> None:
    lp.NeighborGraph(flat_points(12, 4, 3), 3).build(lp.Score(mlp(), 1), lp.Conformal()).save(folder / "graph.npz")


def read_graph(folder: Path) -> Any:
    graph = lp.Graph.load(folder / "graph.npz")
    return lp.attribute(lp.Score(mlp(), 1), X, method=graph, support=False, max_gradients=100)


def change_array(content: bytes, place: int, other: str) -> bytes:
    """An array of a graph's file cut short, left out or made of another type."""
    import io

    import numpy as np

    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = sorted(arrays)[place * len(arrays) // PLACES]
    array = arrays[name]
    if other == "gone":
        del arrays[name]
    elif other in ("list", "empty text", "tuple"):
        arrays[name] = array[:0] if array.ndim else array.reshape(1)
    elif other in ("minus one", "a fraction", "true"):
        arrays[name] = (array * 0 + OTHERS[other]).astype(array.dtype) if array.dtype.kind in "iufb" else array
    elif other in ("text", "null"):
        arrays[name] = np.array(["text"] * max(1, array.size)).reshape(array.shape or ())
    else:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array[None]
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def check_graph(found: Any) -> None:
    check_loaded(found)
    if not found.values.isfinite().all():
        raise Wrong("values that are not finite")


FILES: dict[str, Kind] = {
    "result": Kind(
        lambda folder: result().save(folder / "r.leastpath"), lambda folder: lp.load(folder / "r.leastpath"),
        check_loaded, fields=reseal,
    ),
    "explorer": Kind(write_explorer, read_explorer, lambda page: None, fields=reseal),
    "job folder": Kind(write_job, read_job, check_job),
    "job file": Kind(write_config, read_config, check_config, "job.toml", change_config),
    "graph": Kind(write_graph, read_graph, check_graph, fields=change_array),
}  # fmt: skip
