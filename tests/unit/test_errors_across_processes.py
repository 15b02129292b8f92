"""Errors cross processes: pools and task queues pickle them, and what reads annotations reads theirs."""

from __future__ import annotations

import copy
import inspect
import pickle
import pkgutil
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import pytest

import memory_sql
from memory_sql import AddResult, BusyError, InputError, Usage
from memory_sql.config import checked_for_agent
from memory_sql.errors import LanguageModelError, MemorySQLError
from memory_sql.llm.dialect import Refusal

VALUES: dict[str, Any] = {
    "str": "a word",
    "int": 3,
    "float": 2.5,
    "float | None": 2.5,
    "str | None": "o1-2",
    "datetime": datetime(2026, 5, 17, tzinfo=UTC),
    "Mapping[str, str]": {"b": "can't be reached"},
    "Sequence[str]": ("a", "b"),
    "Mapping[str, int] | None": {"an incarnation": 2},
    "Refusal": Refusal(400, "temperature"),
}


def _pickled(error: MemorySQLError, protocol: int) -> Any:
    return pickle.loads(pickle.dumps(error, protocol))


WAYS: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {one}": partial(_pickled, protocol=one) for one in range(2, 6)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def _below(kind: type[MemorySQLError]) -> Iterator[type[MemorySQLError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _below(one)


def _errors() -> list[type[MemorySQLError]]:
    for module in pkgutil.walk_packages(memory_sql.__path__, "memory_sql."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found = dict.fromkeys(_below(MemorySQLError))
    return sorted((one for one in found if one.__module__.startswith("memory_sql.")), key=lambda one: one.__qualname__)


def _made(kind: type[MemorySQLError]) -> MemorySQLError:
    """With a value for every parameter, and all that may be set later."""
    if kind.__init__ is Exception.__init__:
        error = kind("a text")
    else:
        given = inspect.signature(kind).parameters.values()
        by_place = [VALUES[one.annotation] for one in given if one.kind is not one.KEYWORD_ONLY]
        by_name = {one.name: VALUES[one.annotation] for one in given if one.kind is one.KEYWORD_ONLY}
        error = kind(*by_place, **by_name)
    error.added = AddResult(conversation_id="c1", accepted=1, duplicates=0, cleaned=0)
    if isinstance(error, LanguageModelError):
        error.usage = Usage("m", 3, 1)
    error.add_note("while testing")
    return error


ERRORS = _errors()


def test_the_errors_are_found() -> None:
    assert len(ERRORS) > 30
    assert {one.__module__ for one in ERRORS} > {"memory_sql.errors"}  # also those of single modules


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__qualname__)
def test_an_error_is_the_same_in_another_process(kind: type[MemorySQLError], way: str) -> None:
    error = _made(kind)
    other = WAYS[way](error)
    assert other is not error
    assert type(other) is kind
    assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)
    assert vars(other) == vars(error)
    assert other.__notes__ == ["while testing"]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__qualname__)
def test_the_annotations_of_an_error_can_be_read(kind: type[MemorySQLError]) -> None:
    assert typing.get_type_hints(kind)["added"] == AddResult | None
    assert isinstance(typing.get_type_hints(kind.__init__), dict)


def _busy() -> None:
    raise BusyError("conversation", "c1")


@pytest.mark.prove
def test_an_error_of_a_pooled_process_is_raised_and_the_pool_goes_on() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(BusyError, match="another process is working on conversation c1"):
            pool.submit(_busy).result()
        assert pool.submit(max, 1, 2).result() == 2


def test_a_misspelt_setting_of_an_agent_comes_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"formation_mesages \(did you mean formation_messages\?\)"):
        checked_for_agent({"formation_mesages": 3})
