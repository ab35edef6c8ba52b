"""Values of scenarios: what users write, as plain data and as TOML."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from tabane import _policy
from tabane._errors import ScenarioError


def fault(at: str, message: str, help: str) -> ScenarioError:
    """What is wrong with the value at a dotted key, and what to do."""
    return ScenarioError(f"{at}: {message}\n      = {help}", message=message, help=help)


#: The first whole number that is too large for a file, and the first that is for `set`.
_FILE_END, _SET_END = 2**63, 2**64


def built(value: Any, at: str) -> Any:
    """Returns a value of a scenario that is built, as `plain` does.

    Raises:
        ScenarioError: it has no meaning in a scenario, or a file cannot hold it.
    """
    return plain(value, at, _FILE_END)


def plain(value: Any, at: str, end: int = _SET_END) -> Any:
    """Returns a value as plain data, a copy; classes of policies stay.

    Numbers of numpy and `Decimal` become Python's, paths texts, arrays and what else can be gone
    through lists.

    Args:
        value: of a scenario, or laid over one.
        at: its dotted key.
        end: whole numbers are less.

    Raises:
        ScenarioError: it has no meaning in a scenario.
    """
    if isinstance(value, str):
        return text(value, at)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return _whole(int(value), at, end)
    if isinstance(value, numbers.Real | Decimal):
        return _finite(value, at)
    if isinstance(value, os.PathLike):
        return text(os.fsdecode(value), at)
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), at, end)
    if isinstance(value, Mapping):
        return {name(key, at): plain(item, f"{at}.{key}", end) for key, item in value.items()}
    if value is None:
        raise fault(at, "None is no value", "leave the key out")
    if isinstance(value, type) and _policy.name_of(value) is not None:
        return value
    ordered = not isinstance(value, type | bytes | bytearray | set | frozenset)
    if ordered and isinstance(value, Iterable):
        return [plain(item, f"{at}.{n}", end) for n, item in enumerate(value)]
    help = "it holds texts, numbers, true or false, lists, tables and classes of policies"
    raise fault(at, f"a scenario cannot hold {value!r}", help)


def several(values: Any, at: str) -> list[Any]:
    """Returns the values of an axis as plain data.

    Raises:
        ScenarioError: it is one value, or one of them has no meaning in a scenario.
    """
    made = values if isinstance(values, type) else plain(values, at)
    if not isinstance(made, list):
        raise fault(at, f"{values!r} is one value", "an axis has several: write a list")
    return made


def seed(value: object, at: str) -> int:
    """Returns a seed as Python's own number.

    Raises:
        ScenarioError: it is no whole number from 0 to 2**64 - 1.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not 0 <= int(value) < 2**64:  # type: ignore[call-overload]
        raise fault(at, f"{value!r} is no seed", "a whole number from 0 to 2**64 - 1")
    return int(value)  # type: ignore[call-overload, no-any-return]


def sets(values: Mapping[str, Any] | None) -> list[str]:
    """Returns values by dotted key as ``--set`` takes them.

    Raises:
        ScenarioError: one of them has no meaning in a scenario.
    """
    plains = {name(key, "set"): plain(value, key) for key, value in (values or {}).items()}
    return [f"{key}={_toml(value, top=True)}" for key, value in plains.items()]


def _toml(value: Any, top: bool = False) -> str:
    """Plain data as TOML; texts at the top as the command line takes them."""
    if isinstance(value, type):
        value = _policy.name_of(value)
    if isinstance(value, str):
        return value if top else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items())
        return "{ " + pairs + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)


def text(value: object, at: str) -> str:
    """Returns a text as Python's own.

    Raises:
        ScenarioError: it is no text, or not one that a file can hold.
    """
    if not isinstance(value, str):
        raise fault(at, f"{value!r} is no text", "write the text of a scenario")
    # Of a member of an enumeration, too, the text.
    own = str.__str__(value)
    try:
        own.encode()
    except UnicodeEncodeError:
        raise fault(at, f"{own!r} has half a character", "write it as UTF-8 has it") from None
    return own


def name(key: object, at: str) -> str:
    """Returns what something is called: a text, or a whole number as text.

    Raises:
        ScenarioError: it is neither.
    """
    if isinstance(key, str):
        return text(key, at)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return str(int(key))
    raise fault(at, f"{key!r} is no name", "names are texts: write str(...)")


def _whole(number: int, at: str, end: int) -> int:
    if -(2**63) <= number < end:
        return number
    help = "whole numbers here go from -2**63 to 2**64 - 1"
    if end == _FILE_END:
        help = "those of files go from -2**63 to 2**63 - 1; `run` and `sweep` take larger seeds"
    raise fault(at, f"{number} is out of range", help)


def _finite(value: Any, at: str) -> float:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise fault(at, f"{value} is no value", "write a number, or leave the key out") from None
    if not math.isfinite(number):
        raise fault(at, f"{number} is no value", "write a number, or leave the key out")
    return number
