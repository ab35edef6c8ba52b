"""Captures: what ``tabane pcap`` says of them, as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tabane import _native
from tabane._table import Table


class Capture:
    """An analysed capture (``docs/pcap.md`` explains the figures).

    Attributes:
        document: all of it, as ``tabane pcap --json`` prints it.
        series: values over time: ``t`` in seconds since the first packet, ``connection``,
            ``subflow`` (-1: the connection), ``direction`` (``forward`` is from the client),
            ``metric`` and ``value``; the unit is the last word of the metric.
    """

    def __init__(self, document: dict[str, Any], series: Table) -> None:
        self.document = document
        self.series = series

    @property
    def connections(self) -> Table:
        """A row a connection and direction.

        ``connection``, ``direction``, ``kind``, ``client``, ``server``, ``start_s``, ``end_s``,
        ``subflows``, and what is known at data level: ``bytes``, ``new_bytes``, ``goodput_bps``,
        ``retransmitted_bytes``, ``reinjected_bytes`` and so on.
        """
        return _table(self._connections())

    @property
    def subflows(self) -> Table:
        """A row a subflow and direction.

        ``connection``, ``subflow``, ``direction``, ``stream`` (as Wireshark numbers them),
        ``client``, ``server``, ``start_s``, ``end_s``, ``packets``, ``bytes``, ``new_bytes``,
        ``goodput_bps``, ``rtt_median_s`` and other round-trip times, and a column for each of
        Wireshark's labels: how many packets have it.
        """
        return _table(self._subflows())

    @property
    def events(self) -> Table:
        """A row an MPTCP signal: ``connection``, ``t``, ``stream``, ``by_client``, ``event``.

        ``detail`` is JSON: what else it says.
        """
        return _table(self._events())

    def _connections(self) -> Iterator[dict[str, Any]]:
        for n, connection in enumerate(self.document["connections"]):
            about = {k: connection[k] for k in ("kind", "client", "server", "start_s", "end_s")}
            for direction in ("forward", "backward"):
                yield {
                    "connection": n,
                    "direction": direction,
                    **about,
                    "subflows": len(connection["subflows"]),
                    **_flat(connection[direction]),
                }

    def _subflows(self) -> Iterator[dict[str, Any]]:
        for n, connection in enumerate(self.document["connections"]):
            for k, subflow in enumerate(connection["subflows"]):
                names = ("stream", "client", "server", "start_s", "end_s")
                for direction in ("forward", "backward"):
                    yield {
                        "connection": n,
                        "subflow": k,
                        "direction": direction,
                        **{name: subflow[name] for name in names},
                        **_flat(subflow[direction]),
                    }

    def _events(self) -> Iterator[dict[str, Any]]:
        shown = ("t", "stream", "by_client", "event")
        for n, connection in enumerate(self.document["connections"]):
            for event in connection["events"]:
                rest = {key: value for key, value in event.items() if key not in shown}
                yield {
                    "connection": n,
                    **{key: event[key] for key in shown},
                    "detail": json.dumps(rest) if rest else "",
                }

    def __repr__(self) -> str:
        return f"<Capture of {self.document['packets']} packets>\n{self.connections!r}"


def read_pcap(path: str | PathLike[str]) -> Capture:
    """Analyses a pcap or pcapng file, as ``tabane pcap`` does.

    A file that is cut off or damaged is read up to there (``document["file"]["end"]`` says so).

    Raises:
        OSError: there is no such file, or it is a folder.
        RunError: it is no capture.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path}: Is a directory")
    document, series = _native.read_pcap(Path(path))
    return Capture(json.loads(document), Table._of(series))


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Nested values by joined names; labels by their own."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            prefix = "" if key == "labels" else f"{key}_"
            flat.update({f"{prefix}{name}": inner for name, inner in value.items()})
        elif value is not None:
            flat[key] = value
    return flat


def _table(rows: Iterator[dict[str, Any]]) -> Table:
    """Rows as columns; what a row has not is NaN, or empty where the column has texts."""
    listed = list(rows)
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for name in dict.fromkeys(name for row in listed for name in row):
        values = [row.get(name) for row in listed]
        if any(isinstance(value, str) for value in values):
            column = np.empty(len(values), dtype=object)
            column[:] = ["" if value is None else str(value) for value in values]
            columns[name] = column
        elif None in values:
            columns[name] = np.array([np.nan if v is None else float(v) for v in values])
        else:
            columns[name] = np.array(values)
    return Table(columns)
