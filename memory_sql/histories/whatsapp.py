"""WhatsApp's text export: one line a message, further lines without a date belong to it; the date's order is the phone's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from memory_sql.errors import InputError

_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c"))
_DATE = r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})"
_TIME = r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:[\s\u202f]*([AaPp])\.?[\s\u202f]*[Mm]\.?)?"
_LINE = re.compile(rf"\[?{_DATE},?\s+{_TIME}(?:\]|\s+[-\u2013])\s+(.*)", re.DOTALL)
_SAID = re.compile(r"([^:\n]{1,100}): ?(.*)", re.DOTALL)
_OMITTED = re.compile(
    r"<(?:Media omitted|Medien ausgeschlossen|Multimedia omitido|Médias omis|Media omessi|Mídia oculta|Media weggelaten)>"
    r"|(?:image|video|audio|sticker|GIF|document) omitted|Bild weggelassen|Video weggelassen|Audio weggelassen"
    r"|null|You deleted this message\.?|This message was deleted\.?|Diese Nachricht wurde gelöscht\.?",
    re.IGNORECASE,
)


class _Line(NamedTuple):
    number: int
    date: tuple[int, int, int]
    time: tuple[int, int, int]
    text: str


def is_mine(text: str) -> bool:
    """Whether one of the first lines is a message with a date."""
    return any(_LINE.match(line.translate(_MARKS)) for line in text[:10_000].split("\n")[:5])


def document(text: str, name: str, zone: ZoneInfo, people: Mapping[str, str], dates: str | None) -> dict[str, Any]:
    """One conversation, of a group where more than two speak. Raises `InputError` where the order of the dates is open."""
    lines = list(_lines(text))
    place = _order((line.date for line in lines), dates)
    said = [(line, match) for line in lines if (match := _SAID.fullmatch(line.text))]
    messages = [
        {
            "role": "user",
            "content": match[2],
            "name": match[1],
            "user_id": people.get(match[1], match[1]),
            "created_at": _moment(line, place, zone),
        }
        for line, match in said
        if not _OMITTED.fullmatch(match[2].strip()) and match[2].strip()
    ]
    speakers = {message["user_id"] for message in messages}
    groups = {"group_ids": [name]} if len(speakers) > 2 else {}
    return {"conversation_id": name, "messages": messages, **groups}


def _lines(text: str) -> Iterator[_Line]:
    """Lines that belong together; what comes before the first date belongs to nothing."""
    began: _Line | None = None
    more: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        match = _LINE.fullmatch(line.translate(_MARKS))
        if match is None:
            more.append(line)
            continue
        if began is not None:
            yield began._replace(text="\n".join((began.text, *more)).rstrip())
        a, b, c, hour, minute, second, half, rest = match.groups()
        began, more = (
            _Line(number, (int(a), int(b), int(c)), (_hour(hour, half), int(minute), int(second or 0)), rest),
            [],
        )
    if began is not None:
        yield began._replace(text="\n".join((began.text, *more)).rstrip())


def _hour(hour: str, half: str | None) -> int:
    return int(hour) if half is None else int(hour) % 12 + (12 if half in "Pp" else 0)


def _order(dates: Iterable[tuple[int, int, int]], told: str | None) -> str:
    """`ymd`, `dmy` or `mdy`: the one told, else what all dates allow; of several that in which time doesn't run backwards."""
    found = list(dates)
    fitting = [
        order for order in ((told,) if told else ("ymd", "dmy", "mdy")) if all(_fits(date, order) for date in found)
    ]
    forward = [order for order in fitting if _runs_on([_ymd(date, order) for date in found])]
    left = forward or fitting
    if not left:
        raise InputError("its dates are neither day/month/year nor month/day/year nor year-month-day throughout")
    if len(left) > 1 and len({tuple(_ymd(date, order) for date in found) for order in left}) > 1:
        raise InputError("its dates may be day/month or month/day: pass --dates dmy or --dates mdy")
    return left[0]


def _runs_on(days: list[tuple[int, int, int]]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(days))


def _ymd(date: tuple[int, int, int], order: str) -> tuple[int, int, int]:
    year, month, day = (date[order.index(part)] for part in "ymd")
    return year + 2000 if year < 100 else year, month, day


def _fits(date: tuple[int, int, int], order: str) -> bool:
    year, month, day = _ymd(date, order)
    short = order == "ymd" and date[0] < 1000
    return not short and 2009 <= year < 2100 and 1 <= month <= 12 and 1 <= day <= 31


def _moment(line: _Line, order: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime(*_ymd(line.date, order), *line.time, tzinfo=zone)
    except ValueError:
        raise InputError(f"line {line.number}: there is no such day or time") from None
