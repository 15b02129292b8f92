"""WhatsApp's text export: one line a message, further lines without a date belong to it; the date's order is the phone's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from memory_sql.errors import InputError
from memory_sql.histories.documents import Broken, Document, Said
from memory_sql.languages.invisible import hidden_in_id
from memory_sql.languages.text import clean

MOST_LINES = 10_000  # of one message
_LTR = "\u200e"  # a phone puts it before what it says itself
_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069"))
_DATE = r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})"
_HALF = r"([AaPp])\.?\s*[Mm]\.?"
_TIME = rf"(?:klo\s)?(?:([上下午前後오전후]{{2}})\s?)?(\d{{1,2}})[:.](\d{{2}})(?:[:.](\d{{2}}))?(?:\s*{_HALF})?"
_LINE = re.compile(rf"\[?{_DATE}[,،]?\s+{_TIME}(?:\]|\s+[-\u2013])\s+(.*)", re.DOTALL)
_SAID = re.compile(r"([^:\n]{1,100}): ?(.*)", re.DOTALL)
_UNSAVED = re.compile(r"~\s*(?=\S)")  # before the name that somebody not in the address book has given themselves
_AFTER = ("下午", "午後", "오후")
_OMITTED = re.compile(
    r"<(?:Media omitted|Medien ausgeschlossen|Multimedia omitido|Médias omis|Media omessi|Mídia oculta|Media weggelaten)>"
    r"|(?:image|video|audio|sticker|GIF|document|Contact card) omitted"
    r"|(?:Bild|Video|Audio|Sticker|GIF|Dokument) weggelassen"
    r"|null|You deleted this message\.?|This message was deleted\.?|Diese Nachricht wurde gelöscht\.?"
    r"|Du hast diese Nachricht gelöscht\.?|Missed (?:voice|video) call",
    re.IGNORECASE,
)
_ATTACHED = re.compile(
    r"[^\n]{1,200}\.\w{1,5} \((?:file attached|Datei angehängt|archivo adjunto|fichier joint|file allegato|"
    r"arquivo anexado|bestand bijgevoegd)\)(?:\n|$)"
)
_EDITED = re.compile(
    r"\s*<(?:This message was edited|Diese Nachricht wurde bearbeitet|Se editó este mensaje|Este mensaje fue editado|"
    r"Ce message a été modifié|Questo messaggio è stato modificato|Esta mensagem foi editada|Mensagem editada|"
    r"Dit bericht is bewerkt)>$"
)
_OF_THE_PHONE = re.compile(
    rf"\s*{_LTR}<[^<>\n]{{1,200}}>$"
)  # that it was edited, or what was attached, in any language
_CHANGED = re.compile(r".+ (?:changed the (?:subject|group)|hat den (?:Betreff|Gruppennamen)|cambió el asunto)\b")
_ORDERS = ("ymd", "dmy", "mdy")


class _Line(NamedTuple):
    number: int
    date: tuple[int, int, int]
    time: tuple[int, int, int]
    text: str


class _Message(NamedTuple):
    line: _Line
    name: str
    text: str


def is_mine(text: str) -> bool:
    """Whether one of the first lines is a message with a date."""
    return any(_LINE.match(line.translate(_MARKS)) for line in text[:10_000].split("\n")[:5])


def document(
    lines: Callable[[], Iterable[tuple[int, str]]],
    name: str,
    zone: ZoneInfo,
    people: Mapping[str, str],
    told: str | None,
) -> Document:
    """One conversation, of a group where more than two speak. Raises `InputError` where the order of the dates is open.

    The lines are read twice. `told`: the order of the dates.
    """
    dates, speakers = _Dates(told), set[str]()
    for line in _lines(lines()):
        dates.take(line.date)
        if len(speakers) <= 2 and (message := _message(line)) is not None:
            speakers.add(people.get(message.name, message.name))
    order = dates.order()
    said = (_said(message, order, zone, people) for line in _lines(lines()) if (message := _message(line)) is not None)
    return Document(name, said, (name,) if len(speakers) > 2 else (), mark="whatsapp:")


def _said(message: _Message, order: str, zone: ZoneInfo, people: Mapping[str, str]) -> Said | Broken:
    place, name = f"line {message.line.number}", message.name
    try:
        at = datetime(*_ymd(message.line.date, order), *message.line.time)  # noqa: DTZ001  # as the phone showed it
    except ValueError:
        return Broken(place, "there is no such day or time")
    data: dict[str, Any] = {
        "role": "user",
        "content": message.text,
        "name": name,
        "user_id": people.get(name, name),
        "created_at": at.replace(tzinfo=zone),
    }
    return Said(data, place, mark=f"{at:%Y-%m-%dT%H:%M:%S}")


def _message(line: _Line) -> _Message | None:
    """None for a line of the system, and where nothing is said."""
    match = _SAID.fullmatch(line.text)
    if match is None or match[2].startswith(_LTR) or _CHANGED.match(match[1].translate(_MARKS)):
        return None
    text = _OF_THE_PHONE.sub("", match[2]).translate(_MARKS)
    text = _ATTACHED.sub("", _EDITED.sub("", text), count=1) if "(" in text or "<" in text else text
    name = name_of(_UNSAVED.sub("", match[1].translate(_MARKS), count=1))
    said = bool(name) and bool(text.strip()) and not _OMITTED.fullmatch(text.strip())
    return _Message(line, name, text) if said else None


def name_of(name: str) -> str:
    """A name in one spelling, which may be an id: phones write é in two ways, and put characters in that aren't seen."""
    seen = "".join(c for c in clean(name)[0] if not hidden_in_id(c))
    return unicodedata.normalize("NFC", seen).strip()


def _lines(lines: Iterable[tuple[int, str]]) -> Iterator[_Line]:
    """Lines that belong together; what comes before the first date belongs to nothing."""
    began: _Line | None = None
    more: list[str] = []
    for number, line in lines:
        found = _line(number, line)
        if found is None:
            if len(more) == MOST_LINES:
                raise InputError(f"line {number}: over {MOST_LINES:,} lines without a date")
            more.append(line)
            continue
        if began is not None:
            yield began._replace(text="\n".join((began.text, *more)).rstrip())
        began, more = found, []
    if began is not None:
        yield began._replace(text="\n".join((began.text, *more)).rstrip())


def _line(number: int, line: str) -> _Line | None:
    match = _LINE.fullmatch(line.lstrip("".join(map(chr, _MARKS)))) if line else None
    if match is None:
        return None
    a, b, c, early, hour, minute, second, half, rest = match.groups()
    after = half in ("P", "p") if half else early in _AFTER if early else None
    return _Line(number, (int(a), int(b), int(c)), (_hour(int(hour), after), int(minute), int(second or 0)), rest)


def _hour(hour: int, after_noon: bool | None) -> int:
    return hour if after_noon is None else hour % 12 + 12 * after_noon


@dataclass(slots=True)
class _Dates:
    """What the dates of a file allow, as they come: `told`, or all orders in which each is a day."""

    told: str | None
    fitting: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # and the last day in each
    backwards: set[str] = field(default_factory=set)
    apart: set[frozenset[str]] = field(default_factory=set)  # in which some date is another day
    begun: bool = False

    def take(self, date: tuple[int, int, int]) -> None:
        orders = self.fitting if self.begun else ((self.told,) if self.told else _ORDERS)
        days = {order: _ymd(date, order) for order in orders if _fits(date, order)}
        self.backwards |= {order for order, day in days.items() if day < self.fitting.get(order, day)}
        self.apart |= {frozenset((a, b)) for a in days for b in days if days[a] != days[b]}
        self.fitting, self.begun = days, True

    def order(self) -> str:
        """Of several that in which time doesn't run backwards."""
        left = [order for order in self.fitting if order not in self.backwards] or [*self.fitting]
        if not left:
            raise InputError("its dates are neither day/month/year nor month/day/year nor year-month-day throughout")
        if any(frozenset((a, b)) in self.apart for a in left for b in left):
            raise InputError("its dates may be day/month or month/day: pass --dates dmy or --dates mdy")
        return left[0]


def _ymd(date: tuple[int, int, int], order: str) -> tuple[int, int, int]:
    year, month, day = (date[order.index(part)] for part in "ymd")
    return year + 2000 if year < 100 else year, month, day


def _fits(date: tuple[int, int, int], order: str) -> bool:
    year, month, day = _ymd(date, order)
    short = order == "ymd" and date[0] < 1000
    return not short and 2009 <= year < 2100 and 1 <= month <= 12 and 1 <= day <= 31
