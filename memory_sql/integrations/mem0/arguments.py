"""What callers of mem0 pass, checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

from memory_sql.domain.arguments import within
from memory_sql.domain.ids import host_id
from memory_sql.errors import InputError
from memory_sql.integrations.mem0.shapes import IDS, JOINED, OPERATORS, OWN, Whose

USUAL = 20
MOST = 10**9
INSTEAD: Mapping[str, str] = {
    "explain": "leave it out, or call memory_sql.Memory.search(explain=True)",
    "memory_type": "leave it out; a text that is to be kept word for word is stored with infer=False",
    "prompt": "leave it out, and set a prompt of the agent: memory_sql.Memory.prompts.set",
    "reference_date": "leave it out, or call memory_sql.Memory.search(as_of=…)",
    "rerank": "leave it out: what is found is ranked",
    "timestamp": "leave it out, and put created_at into the messages",
}


def refuse(call: str, given: Mapping[str, Any]) -> None:
    """Raises `InputError` for what this call doesn't know; not for what is left as mem0 has it."""
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if wrong:
        told = "; ".join(
            f"{name}: {INSTEAD.get(name, f'{call} has no such argument here, leave it out')}" for name in wrong
        )
        raise InputError(told)


def whose(given: Mapping[str, Any], filters: Mapping[str, Any] | None = None) -> Whose:
    """Raises `InputError` if it names nobody, not one of each, or in two places not the same."""
    if filters is not None and not isinstance(filters, Mapping):
        raise InputError("filters must be a mapping")
    found = {name: _id(name, given.get(name)) for name in IDS}
    for name in IDS:
        other = _id(name, (filters or {}).get(name))
        if other is not None and found[name] not in (None, other):
            raise InputError(f"{name} isn't the same in filters")
        found[name] = other or found[name]
    if not any(found.values()):
        raise InputError("name whose memory it is: at least one of user_id, agent_id and run_id")
    return Whose(*found.values())


def _id(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | UUID) or value == "*":
        raise InputError(f"{name} must be one id; memory is never searched across those of several")
    text = host_id(str(value).strip(), name)
    if any(map(str.isspace, text)):
        raise InputError(f"{name} must have no white space in it")
    return text


def other_filters(filters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Those that don't say whose memory it is. Raises `InputError` for an operator that there isn't."""
    others = {name: value for name, value in (filters or {}).items() if name not in IDS}
    _check(others)
    return others


def _check(filters: Mapping[str, Any]) -> None:
    for name, wanted in filters.items():
        if name in JOINED:
            if not isinstance(wanted, list | tuple) or not all(isinstance(one, Mapping) for one in wanted):
                raise InputError(f"filters: {name} takes a list of filters")
            for one in wanted:
                _check(one)
        elif isinstance(wanted, Mapping) and (unknown := wanted.keys() - OPERATORS.keys()):
            there = ", ".join(OPERATORS)
            raise InputError(f"filters: there is no operator {', '.join(map(str, unknown))}; there are {there}")
        elif isinstance(wanted, Mapping) and not all(isinstance(wanted.get(one, []), list) for one in ("in", "nin")):
            raise InputError("filters: in and nin take a list")


def query_of(query: Any) -> str:
    if not isinstance(query, str) or not query.strip():
        raise InputError("query must be text, and not empty")
    return query


def most_of(top_k: int | None, limit: int | None, most: int = MOST) -> int:
    """`limit` is the name that mem0 1.x has for it."""
    given = limit if top_k is None else top_k
    return USUAL if given is None else within("limit" if top_k is None else "top_k", given, most, least=0)


def host_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError("metadata must be a mapping")
    if metadata is not None and OWN in metadata:
        raise InputError(f"metadata: {OWN} is kept for what mem0 knows; use another name")
    return dict(metadata or {})


def day_of(value: Any) -> str:
    """Raises `InputError`."""
    try:
        if isinstance(value, datetime):
            return value.date().isoformat()
        return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()
    except (TypeError, ValueError):
        raise InputError("expiration_date must be a day: 2026-12-31") from None
