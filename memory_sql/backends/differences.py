"""The statements that only one of two contexts makes. Pure.

Contexts are compared by their statements, not as XML: a context of the legacy system may not be well-formed. A statement
is a sentence or line in normal form, without elements, headings, bullets, ages, a text's version and its word count.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections.abc import Iterable
from typing import Self

from memory_sql.domain.ids import Value
from memory_sql.importers.mongo.texts import statements
from memory_sql.languages.text import normal_form

_ELEMENT = re.compile(r"</?[A-Z]\w*(?:Memory|Context|Shard|Guidelines|Observations|Messages)\b[^<>]*>")
_FRAME = re.compile(
    r"^\s*(?:VERSION:\s*\d+|-- Total word count: [\d,]+|-- User Memory for .*) *(?:--)?\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_WHEN = re.compile(
    r"\s*\((?:(?:today|yesterday|(?:\w+ )?\d{4}-\d\d-\d\d)(?:, disputed)?|disputed)\)[ \t]*$", re.MULTILINE
)
_AGE = re.compile(r"\s*\(age: [^()\n]{1,40}\)[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]+", re.MULTILINE)  # of a list item
_KEY = os.urandom(32)  # per process, so that a hash in a log can't confirm a guess
_MOST_HASHES = 10


class ContextDifference(Value):
    """The statements that only one of two contexts makes, in normal form and in order. `common`: how many both make.

    `ContextDifference.between(legacy, sql)` compares two texts.
    """

    common: int
    only_legacy: tuple[str, ...] = ()
    only_sql: tuple[str, ...] = ()

    @classmethod
    def between(cls, legacy: str, sql: str) -> Self:
        """Order and repetition don't matter."""
        before, now = statements_of(legacy), statements_of(sql)
        return cls(
            common=len(before.keys() & now.keys()),
            only_legacy=tuple(said for said in before if said not in now),
            only_sql=tuple(said for said in now if said not in before),
        )

    @property
    def is_none(self) -> bool:
        return not self.only_legacy and not self.only_sql

    @property
    def rate(self) -> float:
        """The share of all statements that only one side makes; 0 if there are none."""
        one_side = len(self.only_legacy) + len(self.only_sql)
        return one_side / (one_side + self.common) if one_side else 0.0


def statements_of(context: str) -> dict[str, None]:
    """The distinct statements, in order."""
    text = html.unescape(_ELEMENT.sub("\n", context))
    for pattern in (_FRAME, _NUMBER, _AGE, _WHEN):
        text = pattern.sub("", text)
    return dict.fromkeys(filter(None, (normal_form(said.content) for said in statements(text))))


def hashes(said: Iterable[str]) -> str:
    """Hashes of the first few statements, for a log. Equal statements have equal hashes only within one process."""
    found = [hashlib.blake2b(one.encode(), key=_KEY, digest_size=4).hexdigest() for one in said]
    more = f" and {len(found) - _MOST_HASHES} more" if len(found) > _MOST_HASHES else ""
    return f"{' '.join(found[:_MOST_HASHES])}{more}" or "none"
