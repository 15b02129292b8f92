"""How what people wrote, and when, is put in a prompt: as data, in which nothing looks like markup."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

NOTHING_YET = "(nothing yet)"
KINDS = {
    "individual": "what concerns one person alone",
    "group": "the shared work of that group",
    "collective": "lessons that help anybody",
    "conversation": "what matters in this conversation",
    "entity": "what is known about one thing or person",
    "agent": "what the agent has learnt about itself",
    "guideline": "how the agent should work",
}


def minute_of(moment: datetime) -> str:
    """With the offset of the zone that it is in, so that a day is the speaker's."""
    return f"{moment.isoformat(timespec='minutes').replace('+00:00', 'Z')} ({moment:%A})"


_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def as_written(text: str) -> str:
    """The text without the escapes that are ours: models copy them where they write no JSON, or twice where they do."""
    for mark, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(escape, mark)
    return text


def as_lines(values: Sequence[Mapping[str, Any]]) -> str:
    """One JSON object a line, in which nothing looks like markup; moments are written as by `minute_of`."""
    return "\n".join(json.dumps(value, ensure_ascii=False, default=minute_of).translate(_MARKUP) for value in values)


def as_data(text: str) -> str:
    """A JSON string: no text of people's ends or begins anything around it."""
    return json.dumps(text, ensure_ascii=False).translate(_MARKUP)
