"""What a policy in Python depends on, as a hash: its code, and whatever that code names.

Code is taken as compiled: it is what runs, while a file may have changed since it was loaded. What
a policy reads from elsewhere (files, the environment, a clock) by way of libraries is not seen.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

#: What a class has of Python's own, and what only describes it.
_NOT_BEHAVIOUR = {
    "__abstractmethods__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__orig_bases__",
    "__parameters__",
    "__static_attributes__",
    "__type_params__",
    "__weakref__",
    "_abc_impl",
}
#: What code reads by these, nothing tells: they are left out, or lead to what is.
_UNSEEN_ATTRIBUTES = {"__annotations__", "__builtins__", "__doc__", "__globals__"}
#: What code reads by these, nothing tells.
_UNSEEN = {"__import__", "compile", "eval", "exec", "globals", "input", "open"}


class UnknownError(Exception):
    """Something that has no fingerprint; the text says what."""


def of(policy: type) -> str:
    """Returns the hash of a class and all that it depends on.

    Raises:
        UnknownError: something of it cannot be told from another.
    """
    walk = _Walk()
    walk.visit(policy, policy.__qualname__)
    return hashlib.sha256("\0".join([sys.version, *walk.parts]).encode()).hexdigest()


class _Walk:
    """Writes down a value and what it refers to, each once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        # The values stay, so that no other gets the identity of one of them.
        self._seen: dict[int, tuple[int, object]] = {}

    def visit(self, value: Any, where: str) -> None:
        kind = type(value)
        if value is None or value is ... or kind in (bool, int, float, complex, str, bytes):
            self.parts.append(f"{kind.__name__} {value!r}")
            return
        if id(value) in self._seen:
            self.parts.append(f"again {self._seen[id(value)][0]}")
            return
        self._seen[id(value)] = (len(self._seen), value)
        self.parts.append(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, types.ModuleType):
            self.parts.append(_installed(value.__name__, where))
        elif (named := _of_library(value)) is not None:
            self.parts.append(named)
        elif isinstance(value, type):
            self._class(value, where)
        elif isinstance(value, types.FunctionType):
            self._function(value, where)
        else:
            self._data(value, where)

    def _data(self, value: Any, where: str) -> None:
        kind = type(value)
        if kind in (tuple, list):
            self._all(value, where)
        elif kind in (set, frozenset):
            self._all(sorted(value, key=lambda item: (type(item).__name__, repr(item))), where)
        elif kind in (dict, types.MappingProxyType):
            self._mapping(value, where)
        elif _is_numbers(value):
            self.parts += [f"{value.dtype.descr} {value.shape}", value.tobytes().hex()]
        elif kind in (staticmethod, classmethod, types.MethodType):
            self._all([value.__func__, getattr(value, "__self__", None)], where)
        elif isinstance(value, enum.Enum):
            own = {name: held for name, held in vars(value).items() if not name.startswith("_")}
            self._all([value.name, value.value, own, kind], where)
        elif kind is types.BuiltinMethodType and isinstance(value.__self__, type):
            self._all([value.__self__, value.__name__], where)
        elif kind is property:
            self._all([value.fget, value.fset, value.fdel], where)
        elif kind is functools.cached_property:
            self.visit(value.func, where)
        elif kind is functools.partial:
            self._all([value.func, value.args, value.keywords], where)
        elif kind is types.MemberDescriptorType:
            self.parts.append(value.__name__)
        else:
            raise UnknownError(f"{where} is of type {kind.__qualname__}")

    def _all(self, values: Iterable[Any], where: str) -> None:
        values = list(values)
        self.parts.append(str(len(values)))
        for value in values:
            self.visit(value, where)

    def _mapping(self, values: Mapping[Any, Any], where: str) -> None:
        self.parts.append(str(len(values)))
        for key, value in values.items():
            self.visit(key, where)
            self.visit(value, f"{where}[{key!r}]")

    def _class(self, value: type, where: str) -> None:
        self.parts.append(f"{value.__module__}.{value.__qualname__}")
        own = vars(value)
        if isinstance(own.get("version"), str):
            self.parts.append(own["version"])
            return
        self._all([type(value), *value.__bases__], where)
        for name in sorted(own.keys() - _NOT_BEHAVIOUR):
            self.parts.append(name)
            self.visit(own[name], f"{where}.{name}")

    def _function(self, value: types.FunctionType, where: str) -> None:
        self._code(value.__code__)
        self._all([value.__defaults__, value.__kwdefaults__, vars(value)], where)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            self.parts.append(name)
            self.visit(held, f"{name} of {where}")
        for name in sorted(_globals(value.__code__, where)):
            self.parts.append(name)
            if name in value.__globals__:
                self.visit(value.__globals__[name], name)
            elif name in _UNSEEN:
                raise UnknownError(f"{where} calls {name}()")

    def _code(self, code: types.CodeType) -> None:
        # Where it stands in its file, and how its lines are numbered, is left out.
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        raw = code.co_code.hex(), getattr(code, "co_exceptiontable", b"").hex()
        self.parts.append(repr((code.co_name, numbers, names, raw)))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self._constant(constant)

    def _constant(self, value: Any) -> None:
        # Constants are data; equal ones may or may not be the same object.
        if isinstance(value, frozenset):
            self.parts.append(f"frozenset {sorted(map(repr, value))}")
        else:
            self.parts.append(f"{type(value).__name__} {value!r}")


def _globals(code: types.CodeType, where: str) -> set[str]:
    """Global names that code reads, with that inside of it; modules that it imports are checked."""
    names = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise UnknownError(f"{where} changes the global {instruction.argval}")
        if instruction.opname.startswith("LOAD") and instruction.argval in _UNSEEN_ATTRIBUTES:
            raise UnknownError(f"{where} reads {instruction.argval}")
        if instruction.opname == "IMPORT_NAME":
            _installed(instruction.argval, where)
        if "_GLOBAL" in instruction.opname or instruction.opname == "LOAD_NAME":
            names.add(instruction.argval)
    if {"sys", "modules"} <= {*code.co_names, *code.co_freevars}:
        raise UnknownError(f"{where} reads sys.modules")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals(constant, where)
    return names


def _of_library(value: Any) -> str | None:
    """Module, name and version of what a library has by a name of its own."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)):
        # numpy's functions on arrays have a name alone.
        module, name = "numpy", getattr(value, "__name__", "") if _is_ufunc(value) else ""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    version = _version(module) if found is value else None
    return None if version is None else f"{module}.{name} {version}"


def _is_numbers(value: Any) -> bool:
    # Objects of derived classes hold more than numbers: masks, attributes of their own.
    kind = type(value)
    whole = kind is np.ndarray or (issubclass(kind, np.generic) and kind.__module__ == "numpy")
    return whole and not value.dtype.hasobject


def _is_ufunc(value: object) -> bool:
    return isinstance(value, np.ufunc)


def _installed(module: str, where: str) -> str:
    version = _version(module)
    if version is None:
        raise UnknownError(f"{where} uses module {module or '.'}, which is not installed")
    return f"{module} {version}"


def _version(module: str) -> str | None:
    """The version of what a module belongs to; none of one's own, which may change without."""
    top = module.partition(".")[0]
    if top == "tabane" or _is_standard(top):
        return "of this program"
    file = str(getattr(sys.modules.get(top), "__file__", None) or "")
    if "site-packages" not in file and "dist-packages" not in file:
        return None
    names = sorted(set(_distributions().get(top, [])))
    return " ".join(f"{name} {metadata.version(name)}" for name in names) or None


def _is_standard(top: str) -> bool:
    """Whether a module is Python's own, and not a file of one's own with such a name."""
    if top not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        return True
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    inside = any(Path(file).resolve().is_relative_to(Path(place).resolve()) for place in places)
    return inside and "site-packages" not in file and "dist-packages" not in file


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()
