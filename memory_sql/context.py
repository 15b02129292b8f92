"""Scopes, what is pending in them and what was retrieved → the XML in the agent's prompt. Pure.

Bytes that change seldom come first, so that prompt caches hold: collective, groups by name, the user; then everything
that carries an age. Remembered text is data: escaped, and without the characters that XML can't hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_sql.domain import Context, ContextPart, Hit, ScopeText, observation_id
from memory_sql.text import count_tokens, one_line

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"})
_IN_ATTRIBUTE = str.maketrans({"\t": "&#9;", "\n": "&#10;"})

ELEMENTS = {
    "collective": ("CollectiveMemory", None),
    "agent": ("AgentMemory", None),
    "guideline": ("Guidelines", None),
    "group": ("GroupMemory", "group"),
    "individual": ("UserMemory", "user"),
    "entity": ("EntityMemory", "entity"),
    "session": ("SessionMemory", "session"),
}


@dataclass(frozen=True, slots=True)
class _Piece:
    xml: str
    part: ContextPart


def escape(text: str) -> str:
    """The text as XML character data: parsed again it is the same, but for characters that no XML can hold."""
    return _NOT_XML.sub("", text).translate(_ESCAPES)


def attribute(name: str, value: str) -> str:
    return f'{name}="{escape(value).translate(_IN_ATTRIBUTE)}"'


def age(then: datetime, now: datetime) -> str:
    """`just now`, `5 minutes ago`, `2 hours ago`, `3 days ago` … (R075); the future is `just now`."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, length in (
        ("year", 31_557_600),
        ("month", 2_629_800),
        ("week", 604_800),
        ("day", 86_400),
        ("hour", 3600),
        ("minute", 60),
    ):
        if seconds >= length * (2 if unit == "week" else 1):
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def render(
    scopes: Sequence[ScopeText], hits: Sequence[Hit], now: datetime, *, fired: bool, reason: str | None
) -> Context:
    """The whole context. `scopes` come in the order in which they are to stand."""
    shown = {observation_id(scope.ref.id, line.seq) for scope in scopes for line in scope.pending}
    pieces = [piece for scope in scopes for piece in _scope(scope, now)]
    pieces += [piece for scope in scopes if scope.ref.kind != "individual" for piece in _recent_apart(scope, now)]
    pieces += [piece for scope in scopes for piece in _disputed_apart(scope, now)]
    pieces += _retrieved([hit for hit in hits if hit.observation.id not in shown], now)
    body = "\n".join(piece.xml for piece in pieces)
    xml = f"<MemoryContext>\n{body}\n</MemoryContext>" if pieces else "<MemoryContext/>"
    return Context(xml=xml, parts=tuple(p.part for p in pieces), tokens=count_tokens(xml), fired=fired, reason=reason)


def words_of(scopes: Sequence[ScopeText]) -> str:
    """Everything that the static layer says, for rules that ask what the prompt holds anyway."""
    return "\n".join(
        text
        for scope in scopes
        for text in (title_of(scope), scope.consolidation or "", *(line.content for line in scope.pending))
    )


def title_of(scope: ScopeText) -> str:
    """How the prompt calls the scope's owner."""
    return scope.display_name or scope.ref.owner_id or ""


def _scope(scope: ScopeText, now: datetime) -> Iterable[_Piece]:
    """The scope's element: its text and, for the user's own, what is pending."""
    element, owner = ELEMENTS[scope.ref.kind]
    own = scope.ref.kind == "individual"
    lines = _lines(scope, now) if own else []
    if not scope.consolidation and not lines:
        return
    attributes = [attribute(owner, title_of(scope))] if owner else []
    attributes += [attribute("name", scope.ref.name)] if scope.ref.name else []
    inner = [escape(scope.consolidation)] if scope.consolidation else []
    inner += [_recent(lines)] if lines else []
    xml = _element(element, attributes, "\n".join(inner))
    sources = [f"s{scope.ref.id}v{scope.version}"] if scope.consolidation else []
    sources += [observation_id(scope.ref.id, line.seq) for line in scope.pending] if own else []
    yield _Piece(xml, ContextPart(element=element, scope=scope.ref, sources=tuple(sources), tokens=count_tokens(xml)))


def _recent_apart(scope: ScopeText, now: datetime) -> Iterable[_Piece]:
    """What is pending in a shared scope stands behind everything that is stable."""
    lines = _lines(scope, now)
    if lines:
        attributes = [attribute("scope", scope.ref.kind)]
        attributes += [attribute(scope.ref.kind, title_of(scope))] if scope.ref.owner_id else []
        xml = _recent(lines, attributes)
        sources = tuple(observation_id(scope.ref.id, line.seq) for line in scope.pending)
        yield _Piece(
            xml, ContextPart(element="RecentObservations", scope=scope.ref, sources=sources, tokens=count_tokens(xml))
        )


def _disputed_apart(scope: ScopeText, now: datetime) -> Iterable[_Piece]:
    """What somebody says isn't so and the scope's text may state; what is pending is marked where it stands."""
    told = [item for item in scope.disputed if item not in scope.pending]
    if told and scope.consolidation:
        attributes = [attribute("scope", scope.ref.kind)]
        attributes += [attribute(scope.ref.kind, title_of(scope))] if scope.ref.owner_id else []
        lines = [_line(item.content, item.observed_at, now) for item in told]
        xml = _element("DisputedObservations", attributes, "\n".join(lines))
        sources = tuple(observation_id(scope.ref.id, item.seq) for item in told)
        yield _Piece(
            xml, ContextPart(element="DisputedObservations", scope=scope.ref, sources=sources, tokens=count_tokens(xml))
        )


def _retrieved(hits: Sequence[Hit], now: datetime) -> Iterable[_Piece]:
    if hits:
        found = [hit.observation for hit in hits]
        lines = [_line(o.content, o.observed_at, now, disputed=o.verification == "disputed") for o in found]
        xml = _element("RetrievedObservations", [], "\n".join(lines))
        sources = tuple(hit.observation.id for hit in hits)
        yield _Piece(
            xml, ContextPart(element="RetrievedObservations", scope=None, sources=sources, tokens=count_tokens(xml))
        )


def _lines(scope: ScopeText, now: datetime) -> list[str]:
    return [_line(line.content, line.observed_at, now, disputed=line in scope.disputed) for line in scope.pending]


def _line(content: str, observed_at: datetime, now: datetime, *, disputed: bool = False) -> str:
    return f"- {escape(one_line(content))} ({age(observed_at, now)}{', disputed' if disputed else ''})"


def _recent(lines: Sequence[str], attributes: Sequence[str] = ()) -> str:
    return _element("RecentObservations", attributes, "\n".join(lines))


def _element(name: str, attributes: Sequence[str], inner: str) -> str:
    return f"<{' '.join((name, *attributes))}>\n{inner}\n</{name}>"
