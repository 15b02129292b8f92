"""Slack's export: a folder a channel, in it a file a day; `users.json` names the people. Channels are groups."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from memory_sql.errors import InputError

_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
_SAID = (None, "thread_broadcast", "file_share", "me_message")
_PERSON = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_CHANNEL = re.compile(r"<#[A-Z0-9]+\|([^>]*)>")
_LINK = re.compile(r"<((?:https?|mailto):[^|>]*)(?:\|([^>]*))?>")


def is_mine(names: Mapping[str, bytes]) -> bool:
    return any(_DAY.fullmatch(PurePosixPath(name).name) and len(PurePosixPath(name).parts) > 1 for name in names)


def documents(
    files: Mapping[str, bytes], parsed: Callable[[str, bytes], Any], people: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """A conversation a channel, in the order of time; replies follow what they answer."""
    called = _people(files, parsed)
    channels: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(files):
        path = PurePosixPath(name)
        if _DAY.fullmatch(path.name) and len(path.parts) > 1:
            day = parsed(name, files[name])
            if not isinstance(day, list):
                raise InputError(f"{name}: must be a list of messages")
            channels.setdefault(path.parent.name, []).extend(m for m in day if _was_said(m, name))
    for channel, said in channels.items():
        said.sort(key=lambda m: (_seconds(m.get("thread_ts", m["ts"])), _seconds(m["ts"])))
        messages = [_message(given, called, people) for given in said]
        yield {"conversation_id": f"slack/{channel}", "group_ids": [channel], "messages": messages}


def _people(files: Mapping[str, bytes], parsed: Callable[[str, bytes], Any]) -> dict[str, str]:
    name = next((name for name in files if PurePosixPath(name).name == "users.json"), None)
    users = parsed(name, files[name]) if name is not None else []
    if not isinstance(users, list):
        raise InputError("users.json: must be a list")
    return {
        user["id"]: _called(user) for user in users if isinstance(user, Mapping) and isinstance(user.get("id"), str)
    }


def _called(user: Mapping[str, Any]) -> str:
    profile = user.get("profile")
    shown = profile.get("display_name") if isinstance(profile, Mapping) else None
    return next(
        (name for name in (shown, user.get("real_name"), user.get("name")) if isinstance(name, str) and name),
        user["id"],
    )


def _was_said(given: object, name: str) -> bool:
    """By a person: not who joined, nor what a bot posted."""
    if not isinstance(given, Mapping):
        raise InputError(f"{name}: a message must be an object")
    text = given.get("text")
    said = isinstance(text, str) and bool(text.strip()) and isinstance(given.get("user"), str)
    if said and (not isinstance(given.get("ts"), str) or not re.fullmatch(r"\d{1,12}(\.\d{1,9})?", given["ts"])):
        raise InputError(f"{name}: ts must be seconds since 1970")
    return said and given.get("subtype") in _SAID and "bot_id" not in given


def _seconds(ts: object) -> tuple[int, str]:
    whole, _, part = str(ts).partition(".")
    return int(whole) if whole.isdecimal() else 0, part


def _message(given: Mapping[str, Any], called: Mapping[str, str], people: Mapping[str, str]) -> dict[str, Any]:
    key = given["user"]
    name = called.get(key, key)
    return {
        "role": "user", "content": _plain(given["text"], called), "id": given["ts"], "ts": given["ts"], "name": name,
        "user_id": people.get(name, people.get(key, key)),
    }  # fmt: skip


def _plain(text: str, called: Mapping[str, str]) -> str:
    text = _PERSON.sub(lambda m: f"@{called.get(m[1], m[1])}", text)
    text = _CHANNEL.sub(lambda m: f"#{m[1]}", text)
    return html.unescape(_LINK.sub(lambda m: f"{m[2]} ({m[1]})" if m[2] else m[1], text))
