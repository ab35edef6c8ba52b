"""Tables: named numpy columns of equal length, which become frames on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas
    import polars

#: What the native half hands over: (type, bytes), or (codes, texts).
Raw = dict[str, tuple[Any, Any]]


class Table(Mapping[str, "np.ndarray[Any, Any]"]):
    """Columns by name, each a one-dimensional numpy array of the same length.

    Numbers are ``float64`` or ``int64``, truth values ``bool``, texts ``object``. A number that
    does not apply is NaN in a float column and -1 in an integer column; a text is empty.

    ``table["goodput_bps"]`` is a column, ``len(table)`` the number of *rows*,
    ``list(table)`` the names of the columns. Columns are read-only: ``.copy()`` makes one's own.
    Frames are made by `pandas` and `polars`; other libraries take ``dict(table)``.
    """

    def __init__(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Makes a table of columns; all must have the same length."""
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self._columns = {name: _read_only(column) for name, column in columns.items()}
        self._rows = lengths.pop() if lengths else 0

    @classmethod
    def _of(cls, raw: Raw) -> Table:
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for name, (first, second) in raw.items():
            if isinstance(first, str):
                columns[name] = np.frombuffer(second, dtype=first)
            else:
                texts = np.array([*second, ""], dtype=object)
                columns[name] = texts[np.frombuffer(first, dtype="<i4")]
        return cls(columns)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return self._rows

    def __bool__(self) -> bool:
        return self._rows > 0

    def where(self, **equal: object) -> Table:
        """Returns the rows in which each named column equals the value given."""
        keep = np.ones(self._rows, dtype=bool)
        for name, value in equal.items():
            keep &= self._columns[name] == value
        return Table({name: column[keep] for name, column in self._columns.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Goes through the rows, each a dictionary by column."""
        for n in range(self._rows):
            yield {name: column[n] for name, column in self._columns.items()}

    def pandas(self) -> pandas.DataFrame:
        """Returns the table as a pandas data frame, with the same columns (needs pandas)."""
        import pandas

        return pandas.DataFrame({name: column.copy() for name, column in self._columns.items()})

    def polars(self) -> polars.DataFrame:
        """Returns the table as a polars data frame, with the same columns (needs polars)."""
        import polars

        return polars.DataFrame(
            {
                name: column.tolist() if column.dtype == object else column
                for name, column in self._columns.items()
            },
            schema_overrides={
                name: polars.String
                for name, column in self._columns.items()
                if column.dtype == object and all(isinstance(v, str) for v in column)
            },
        )

    def __repr__(self) -> str:
        names, shown = self._shown()
        widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [names, *shown]
        ]
        if len(self) > len(shown):
            lines.append(f"... {len(self)} rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same for notebooks, which then need no pandas to show a table."""
        names, shown = self._shown()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in shown)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        more = f"<p>... {len(self)} rows</p>" if len(self) > len(shown) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        names = list(self._columns)
        count = min(8, len(self))
        return names, [[_cell(self._columns[name][n]) for name in names] for n in range(count)]


def _read_only(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # A view: the array of who made the table stays as it is.
    view: np.ndarray[Any, Any] = column.view()
    view.flags.writeable = False
    return view


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
