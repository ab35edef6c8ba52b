"""Every public item has a docstring."""

import inspect
from types import ModuleType

import pytest

import tabane
import tabane.gym
import tabane.networkx
import tabane.papers


def public(module: ModuleType) -> list[tuple[str, object]]:
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    items = [(name, getattr(module, name)) for name in names]
    own = [
        (name, item)
        for name, item in items
        if (inspect.isclass(item) or inspect.isfunction(item))
        and item.__module__.startswith("tabane")
    ]
    for name, item in list(own):
        if inspect.isclass(item):
            members = inspect.getmembers(item)
            own.extend(
                (f"{name}.{member}", value)
                for member, value in members
                if not member.startswith("_")
                and (
                    inspect.isfunction(value)
                    or isinstance(value, property)
                    or (
                        inspect.isgetsetdescriptor(value)
                        and value.__objclass__ is not BaseException
                    )
                )
            )
    return own


@pytest.mark.parametrize("module", [tabane, tabane.gym, tabane.networkx, tabane.papers])
def test_every_public_item_has_a_docstring(module: ModuleType) -> None:
    items = public(module)
    assert items
    missing = [name for name, item in items if not (inspect.getdoc(item) or "").strip()]
    assert missing == []
