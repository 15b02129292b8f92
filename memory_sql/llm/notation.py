"""How people's texts, and their times, are written in a prompt: as data in which nothing looks like markup."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from string import ascii_lowercase
from typing import Any

MARK_LETTERS = 8
NOTHING_YET = "(nothing yet)"
KINDS = {
    "individual": "what concerns one person alone",
    "group": "the shared work of that group",
    "collective": "lessons that help anybody",
    "conversation": "how this conversation went, for whoever goes on with it: what was asked, what came of it, what is open",
    "entity": "what is known about one thing or person",
    "agent": "what the agent has learnt about itself",
    "guideline": "how the agent should work",
}


def minute_of(moment: datetime) -> str:
    """With the offset of its time zone, so that the day is the speaker's."""
    return f"{moment.isoformat(timespec='minutes').replace('+00:00', 'Z')} ({moment:%A})"


_BREAKS = {
    "\x85": "\\u0085",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}  # JSON doesn't escape these, and some readers take them for line ends
_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", **_BREAKS})


def mark_for(*texts: str) -> str:
    """Eight letters that occur in none of these texts, as a delimiter around them in one prompt: nobody can guess them."""
    while True:
        mark = "".join(secrets.choice(ascii_lowercase) for _ in range(MARK_LETTERS))
        if not any(mark in text for text in texts):
            return mark


def in_lines(texts: Sequence[str]) -> list[str]:
    """The texts, each for the rest of a line that has already begun. A line after a line break in a text begins with a bar.

    So no line of people's texts looks like one of ours.
    """
    return ["\n| ".join(text.splitlines()).translate(_MARKUP) for text in texts]


def as_written(text: str, said: Collection[str] = ()) -> str:
    """The text without our escapes, which models copy when they don't write JSON, or write twice when they do.

    An escape that occurs in `said` is the speaker's own and is kept.
    """
    for mark, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        if escape in text and not any(escape in one for one in said):
            text = text.replace(escape, mark)
    return text


def as_lines(values: Sequence[Mapping[str, Any]]) -> str:
    """One JSON object a line, in which nothing looks like markup. Times are written by `minute_of`."""
    return "\n".join(json.dumps(value, ensure_ascii=False, default=minute_of).translate(_MARKUP) for value in values)


def as_data(text: str) -> str:
    """A JSON string: no text can end it, or begin anything beside it."""
    return json.dumps(text, ensure_ascii=False).translate(_MARKUP)
