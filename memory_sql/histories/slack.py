"""Slack's export: a folder a channel, in it a file a day; `users.json` names the people. Channels are groups."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memory_sql.errors import InputError
from memory_sql.histories.documents import Broken, Document, Said
from memory_sql.histories.sources import Source
from memory_sql.histories.values import texts, values

_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
_SAID = (None, "thread_broadcast", "file_share", "me_message")
_PERSON = re.compile(r"<@([A-Z0-9]+)(?:\|([^>]*))?>")
_CHANNEL = re.compile(r"<#[A-Z0-9]+\|([^>]*)>")
_SPECIAL = re.compile(r"<!(?:(here|channel|everyone)(?:\|[^>]*)?|[^|>]*\|([^>]*))>")
_LINK = re.compile(r"<((?:https?|mailto|tel):[^|>]*)(?:\|([^>]*))?>")
_TS = re.compile(r"(\d{1,12})(?:\.(\d{1,9}))?")
_SLACKBOT = "USLACKBOT"


class _People(NamedTuple):
    """Names by the ids of Slack, and the ids of those who are no people."""

    names: Mapping[str, str]
    bots: frozenset[str]


def is_mine(sources: Sequence[Source]) -> bool:
    return any(_is_day(source) for source in sources)


def documents(
    sources: Sequence[Source], told: Mapping[str, str], read: Callable[[float], None]
) -> Iterator[Document | Broken]:
    """A conversation a channel, in the order of time; replies follow what they answer. `told`: user ids by name."""
    listed = [source for source in sources if PurePosixPath(source.name).name == "users.json"]
    if len(listed) > 1:
        raise InputError(
            f"{len(listed)} exports of Slack are in it: add each on its own, as their channels share names"
        )
    people = _people(listed[0]) if listed else _People({}, frozenset())
    days = sorted(filter(_is_day, sources), key=lambda day: (PurePosixPath(day.name).parent.name, day.name))
    for channel, of_channel in groupby(days, key=lambda day: PurePosixPath(day.name).parent.name):
        yield Document(f"slack/{channel}", _said(list(of_channel), people, told, read), (channel,), channel, "slack:")


def _is_day(source: Source) -> bool:
    path = PurePosixPath(source.name)
    return _DAY.fullmatch(path.name) is not None and len(path.parts) > 1


def _people(source: Source) -> _People:
    users = [one.value for one in values(texts(source.pieces()), by_line=False) if isinstance(one.value, Mapping)]
    known = [user for user in users if isinstance(user.get("id"), str)]
    bots = frozenset(user["id"] for user in known if user.get("is_bot") is True)
    return _People({user["id"]: _called(user) for user in known}, bots | {_SLACKBOT})


def _called(user: Mapping[str, Any]) -> str:
    profile = user.get("profile")
    shown = profile if isinstance(profile, Mapping) else {}
    names = (shown.get("display_name"), shown.get("real_name"), user.get("real_name"), user.get("name"))
    return next((name for name in names if isinstance(name, str) and name), user["id"])


def _said(
    days: Sequence[Source], people: _People, told: Mapping[str, str], read: Callable[[float], None]
) -> Iterator[Said | Broken]:
    for day in days:
        try:
            for n, one in enumerate(values(texts(day.pieces(read)), by_line=False), 1):
                if (said := _message(one.value, f"{day.name}, message {n}", people, told)) is not None:
                    yield said
        except InputError as error:
            yield Broken(day.name, f"{error}; what follows it there isn't read")


def _message(given: Any, place: str, people: _People, told: Mapping[str, str]) -> Said | Broken | None:
    """None for what no person has said: who joined, what a bot posted."""
    if not isinstance(given, Mapping):
        return Broken(place, "must be an object")
    text, key = given.get("text"), given.get("user")
    if not isinstance(text, str) or not text.strip() or not isinstance(key, str):
        return None
    if given.get("subtype") not in _SAID or given.get("bot_id") is not None or key in people.bots or key == _SLACKBOT:
        return None
    time = _order(given.get("ts"))
    if time is None:
        return Broken(place, "ts must be seconds since 1970")
    name = people.names.get(key) or _own_name(given) or key
    data = {
        "role": "user", "content": _plain(text, people.names), "id": given["ts"], "ts": given["ts"], "name": name,
        "user_id": told.get(name, told.get(key, key)),
    }  # fmt: skip
    return Said(data, place, order=f"{_order(given.get('thread_ts')) or time} {time}")


def _own_name(given: Mapping[str, Any]) -> str | None:
    """Of people of other workspaces, whom `users.json` doesn't list."""
    profile = given.get("user_profile")
    return _called({"id": "", "profile": profile}) if isinstance(profile, Mapping) else None


def _order(ts: object) -> str | None:
    """Sorts as the time does."""
    found = _TS.fullmatch(ts) if isinstance(ts, str) else None
    return None if found is None else f"{found[1]:0>12}.{found[2] or '':0<9}"


def _plain(text: str, names: Mapping[str, str]) -> str:
    text = _PERSON.sub(lambda m: f"@{names.get(m[1]) or m[2] or m[1]}", text)
    text = _CHANNEL.sub(lambda m: f"#{m[1]}", text)
    text = _SPECIAL.sub(lambda m: f"@{m[1]}" if m[1] else m[2], text)
    return html.unescape(_LINK.sub(lambda m: f"{m[2]} ({m[1]})" if m[2] else m[1], text))
