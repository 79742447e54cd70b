"""What commands read from files besides models: pictures of a folder, tables and names of classes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leastpath._support.optional import import_optional
from leastpath.features.groups import Kind
from leastpath.features.images import PICTURES

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def kind_of_file(file: Path) -> Kind:
    """By its name: a table, or else an image or a folder of them."""
    return "table" if file.name.lower().endswith(TABLES) else "image"


def names_in(*given: str) -> list[str]:
    """The names in options that take several with commas, each once.

    Example:
        >>> names_in("age, hours", "age,")
        ['age', 'hours']
    """
    return list(dict.fromkeys(name.strip() for one in given for name in one.split(",") if name.strip()))


def separator_of(file: Path) -> str:
    """What stands between the cells of a table's file: a tab in .tsv files, else a comma."""
    return "\t" if ".tsv" in file.name.lower() else ","


def read_frame(file: Path, drop: Sequence[str] = ()) -> pd.DataFrame:
    """A table, without the columns to drop."""
    pandas = import_optional("pandas", "tables need pandas", "tabular")
    try:
        table = pandas.read_csv(file, sep=separator_of(file))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as a table: {str(error).partition(chr(10))[0]}") from error
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise ValueError(f"--drop {unknown[0]!r} is not a column: the table has {', '.join(map(str, table.columns))}")
    return table.drop(columns=list(drop))


def read_table(file: Path, drop: Sequence[str] = (), missing: str = "mean") -> pd.DataFrame:
    """A table of numbers, without the columns to drop, its empty cells filled as `fill_empty` does."""
    import pandas as pd

    table = read_frame(file, drop)
    words = [str(c) for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    if words:
        raise ValueError(
            f"{', '.join(words)} hold no numbers: encode them as the model expects, or --drop {','.join(words)}"
        )
    return fill_empty(table, missing)


def fill_empty(table: pd.DataFrame, missing: str) -> pd.DataFrame:
    """A table without empty or infinite numbers; which columns had some is said.

    Args:
        table: read from a file. Its words stay as they are.
        missing: what stands in: the column's "mean", a number as text, or "mark": the mean, and after all numbers one
            of 0 and 1 for each column that has empty cells, as `leastpath.tabular.Encoding` lays them out.

    Example:
        >>> import pandas
        >>> fill_empty(pandas.DataFrame({"age": [20.0, None, 40.0]}), "mean")["age"].tolist()
        [20.0, 30.0, 40.0]
    """
    numbers = table.select_dtypes(["number", "bool"]).astype("float64").replace([math.inf, -math.inf], math.nan)
    empty = numbers.columns[numbers.isna().any()]
    if empty.empty:
        return table
    if none := [str(name) for name in empty if numbers[name].isna().all()]:
        raise ValueError(f"no row has a number in {', '.join(none)}: leave out what is empty, --drop {','.join(none)}")
    fill = numbers.mean()
    if missing not in ("mean", "mark"):
        try:
            fill[:] = float(missing)
        except ValueError:
            raise ValueError(f"--missing {missing!r} is unknown: use mean, mark, or a number") from None
    stands = "the column's mean" if missing in ("mean", "mark") else missing
    print(f"Empty cells of {', '.join(map(str, empty))}: {stands} stands in (--missing).", file=sys.stderr)
    marks = numbers[empty].isna().astype("float64").add_suffix("_missing") if missing == "mark" else numbers[[]]
    return numbers.fillna(fill).join(marks).join(table.drop(columns=numbers.columns))


def read_labels(file: Path) -> list[str]:
    """Class names: one per line, a JSON list, or a JSON object from index to name (or to a list that ends with it)."""
    if not file.is_file():
        raise ValueError(f"{file} is not a file: pass class names, one per line or as JSON")
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".json":
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    names = [given[str(i)] for i in range(len(given))] if isinstance(given, dict) else given
    return [str(name[-1] if isinstance(name, list) else name) for name in names]


def picture_files(folder: Path, limit: int | None = None) -> list[Path]:
    """The pictures of a folder, by name."""
    if not folder.is_dir():
        raise ValueError(
            f"{folder} is neither a folder of pictures nor a table: pass one, as in pictures/ or table.csv"
        )
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise ValueError(f"{folder} holds no pictures: they end in {', '.join(PICTURES)}")
    return files[:limit]
