"""The texts of legacy documents as they are stored, and their sentences. Pure.

Every text is cleaned and its secrets are masked, like any text that is stored. `source_hash` is the hash of the original
text, so that both sides can be compared later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory_sql.config.kinds import Secrets
from memory_sql.importers.mongo.values import Notes, UnreadableError
from memory_sql.languages.text import clean, content_digest, count_words, sentences
from memory_sql.privacy.classify import Masked, mask

DIVIDER = "---"
_VERSION = re.compile(r"\A\s*VERSION:\s*(\d{1,9})(?:[ \t\r]*(?P<end>\n|\Z)|[ \t])", re.IGNORECASE)
# What begins with white space begins behind something else, or a long run of it would be tried from each of its characters.
_FOOTER = re.compile(r"(?<!\s)\s*^[ \t]*-- Total word count: [\d,]+\s*\Z", re.MULTILINE)
_DIVIDER = re.compile(r"^[ \t]*-{3,}[ \t]*$", re.MULTILINE)
_NO_STATEMENT = re.compile(r"#|[-*_=\s]+$|\d{1,3}[.)]$")  # a heading, a divider, a list number on its own
_BULLET = re.compile(r"(?:[-*•–]|\d{1,3}[.)])\s+")
_AGE = re.compile(r"(?<!\s)\s*\(age: [^()]{1,40} ago\)\s*$")


@dataclass(frozen=True, slots=True)
class Text:
    """`version` and `over_limit` apply to blobs. `is_plain`: the text was checked unchanged and contains no secret."""

    content: str
    source_hash: bytes
    version: int | None = None
    over_limit: bool = False
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a blob, numbered from 1. `digest` None: it is never equal to another sentence."""

    number: int
    content: str
    digest: bytes | None


def source_hash(text: str) -> bytes:
    """SHA-256 of the original text. An unpaired surrogate counts with its three bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def record_text(text: str | None, secrets: Secrets, notes: Notes) -> Text:
    """Raises `UnreadableError` for an empty text and for a secret that is refused."""
    masked = Masked("", ()) if text is None else _masked(text, secrets, notes)
    stored = masked.text.strip()
    if text is None or not stored:
        notes.add("A3")
        raise UnreadableError("empty", "content")
    is_plain = secrets != "keep" and not masked.found and stored == masked.text
    return Text(stored, source_hash(text), is_plain=is_plain)


def message_text(text: str | None, secrets: Secrets, notes: Notes) -> Text:
    """The text as it is stored, empty if there is none. Raises `UnreadableError` for a secret that is refused."""
    return Text(_stored(text or "", secrets, notes), source_hash(text or ""))


def blob_text(text: str | None, most_words: int, secrets: Secrets, notes: Notes) -> Text | None:
    """None if there is no text. The version line and the word count aren't part of the text (A4)."""
    if text is None or not text.strip():
        notes.add("A3")
        return None
    body, version = _unwrapped(text, notes)
    stored = _stored(body, secrets, notes).strip()
    if not stored:
        notes.add("A3")
        return None
    if _DIVIDER.search(stored):
        notes.add("A21")
    over_limit = count_words(stored) > most_words
    if over_limit:
        notes.add("A30")
    return Text(stored, source_hash(text), version, over_limit)


def _unwrapped(text: str, notes: Notes) -> tuple[str, int | None]:
    head = _VERSION.match(text)
    body = text[head.end() :] if head and head["end"] is not None else text  # a line that says more is text
    plain = _FOOTER.sub("", body)
    if head or plain != body:
        notes.add("A4")
    return plain, int(head[1]) if head else None


def _stored(text: str, secrets: Secrets, notes: Notes) -> str:
    return _masked(text, secrets, notes).text


def _masked(text: str, secrets: Secrets, notes: Notes) -> Masked:
    """`found` is empty if secrets are kept."""
    text, changes = clean(text)
    if {"nul", "surrogate"} & {*changes}:
        notes.add("A29")
    if {*changes} - {"nul", "surrogate"}:
        notes.add("hidden_characters")
    if secrets == "keep":
        return Masked(text, ())
    masked = mask(text)
    if masked.found:
        notes.add("masked")
        if secrets == "refuse":
            raise UnreadableError("secret", "content")
    return masked


def statements(text: str) -> Iterator[Sentence]:
    """The statements of a blob in order, without headings, dividers, bullets and ages."""
    number = 0
    for sentence in sentences(text):
        content = _AGE.sub("", _BULLET.sub("", sentence, count=1))
        if not _NO_STATEMENT.match(content) and any(map(str.isalnum, content)):
            number += 1
            yield Sentence(number, content, content_digest(content))
