"""Each error has an HTTP status, and the page lists it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sql import errors
from memory_sql.errors import STATUSES, MemorySQLError, NotFoundError, http_status

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")


def classes(cls: type[MemorySQLError] = MemorySQLError) -> Iterator[type[MemorySQLError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from classes(below)


OURS = [cls for cls in dict.fromkeys(classes()) if cls.__module__ == errors.__name__]


@pytest.mark.parametrize("cls", OURS, ids=[cls.__name__ for cls in OURS])
def test_each_error_has_a_status_of_its_own_and_is_on_the_page(cls: type[MemorySQLError]) -> None:
    line = rf"^\| {STATUSES[cls]} \|.*`{cls.__name__}`"
    assert re.search(line, PAGE, re.MULTILINE)


def test_what_the_caller_can_change_is_4xx_and_what_may_pass_is_503_or_429() -> None:
    assert set(STATUSES) == set(OURS)
    assert {status for cls, status in STATUSES.items() if issubclass(cls, errors.InputError)} == {413, 422, 500}
    assert {STATUSES[cls] for cls in OURS if issubclass(cls, errors.ConflictError)} == {503}


def test_subclass_of_somebody_else_has_the_status_of_the_class_above() -> None:
    class NoBerthError(NotFoundError):
        """Of a host."""

    assert http_status(NoBerthError("berth", "C4")) == 404
