"""Modules that are imported when something of them is first used, for what most processes never call.

    if TYPE_CHECKING:
        from memory_sql.lifecycle import forgetting
    else:
        forgetting = later("memory_sql.lifecycle.forgetting")

What `add` and `context` need is imported as usual: put off, it would make the first call slow.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType


def imported(module: str) -> ModuleType:
    """Imports without garbage collection, which would take a fifth of the time and find nothing."""
    found = sys.modules.get(module)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    is_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if is_on:
            gc.enable()


class _Later:
    """Stands for a module; what is read or set is the module's own."""

    def __init__(self, module: str) -> None:
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> object:
        return getattr(imported(self.__dict__["_module"]), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(imported(self.__dict__["_module"]), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(imported(self.__dict__["_module"]), name)


def later(module: str) -> _Later:
    return _Later(module)
