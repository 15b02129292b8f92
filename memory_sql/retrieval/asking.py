"""What a message does: ask, request to be told, or tell. Pure rules over sentences, no model call.

What is pasted (code, quotes, logs) isn't read, and what the message only wants to be worked on neither. Where the language
isn't known by its small words, or has no [recall] of its own, a question is what ends in a question mark, or a phrase of any
language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import NOTHING, FunctionWords, Pattern, Recall, Words

END_CHARACTERS = 1500  # of a longer message its two ends are read
SENTENCE_CHARACTERS = 240


class Asking(NamedTuple):
    """`asks`: a sentence of it asks, or wants to be told something.

    `recalls`: the kind of phrase by which it asks for what was said before; "": it doesn't say so. `past`: it asks for a
    former state.
    """

    asks: bool = False
    recalls: str = ""
    past: bool = False


_FENCE = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_ASIDE = re.compile(r"`[^`\n]*`|\[\w+(?: \w+)?(?:: [^\]]*)?\]|https?://\S+|<[^<>\n]{1,200}>")
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|(?<!\w)'[^'\n]{1,60}'(?!\w)")
_PASTED_LINE = re.compile(
    r"^(?:\s{4,}\S|\t|\s*[>|$#%]|\s*\d{1,4}[-/:.]\d\d[-/:.]\d\d|\s*(?:at |File |Traceback|Error:|import |from \w+ import|"
    r"def |class |return\b|const |let |var |SELECT |FROM |WHERE |INSERT |UPDATE |\w+(?:\.\w+)*(?:Error|Exception)\b))"
    r"|[{};]\s*$|[=<>]{2,}|\)\s*:\s*$"
)
_ASKED = ("?", "\uff1f", "\u061f")
_WIDE = "\u3002\uff01\uff1f"  # marks of scripts without spaces
_ABBREVIATION = r"(?<!\b[DMS]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bvs\.)(?<!\b[A-Z]\.)(?<!\.[a-z]\.)"
_SENTENCE = re.compile(rf"(?<=[.!?…\u061f]){_ABBREVIATION}[\"”’')]*\s+|(?<=[{_WIDE}])|\n+|;\s+")
_MARKS = f' \t.!?…,;:-–—*_"“”„«»()[]¡¿{_WIDE}\u061f'
_STRAIGHT = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'", "\u00b4": "'"})
_CLAUSE = re.compile(r"(?:[,:] |[–—] ?| - )")
_LETTERS = re.compile(r"[^\W\d_]+")


class _Sentence(NamedTuple):
    """`plain` is what the patterns see: in lower case, without the marks around it.

    `asks`: it ends in a question mark; `open`: in no mark.
    """

    plain: str
    asks: bool
    open: bool


def read(message: str, *, phrases: bool = True) -> Asking:
    """An empty message, and one that only wants something pasted to be worked on, ask nothing.

    Without `phrases` the language isn't looked at: what ends in a question mark asks.
    """
    sentences = list(_sentences(_spoken(message)))
    if not sentences:
        return Asking()
    languages = _languages_of(sentences) if phrases else []
    kinds = [_kind(sentence, languages) for sentence in sentences]
    asked = [sentence for sentence, kind in zip(sentences, kinds, strict=True) if kind is not None]
    return Asking(
        asks=bool(asked),
        recalls=next(filter(None, kinds), ""),
        past=any(language.past.search(sentence.plain) for sentence in asked for language in languages),
    )


def _kind(sentence: _Sentence, languages: Sequence[Recall]) -> str | None:
    """The kind of phrase that asks for what was said, "" for another question or request; None: it tells something."""
    if any(language.to_store.search(sentence.plain) for language in languages):
        return None
    for language in languages:
        found = language.phrases.any.search(sentence.plain)
        if found:
            return found.lastgroup or ""
    return "" if sentence.asks or any(_asks(sentence, language) for language in languages) else None


def _asks(sentence: _Sentence, language: Recall) -> bool:
    """It requests to be told, or begins as a question does, or its last clause ("the plumber, what did he charge")."""
    frame = language.frame.match(sentence.plain)
    whole = sentence.plain[frame.end() :] if frame else sentence.plain
    if language.telling.match(whole) or language.telling.match(sentence.plain):
        return True
    last = _CLAUSE.split(whole)[1:][-1:]
    return sentence.open and bool(language.question.match(whole) or any(map(language.hung_on.match, last)))


def _spoken(message: str) -> str:
    """What the writer says in a message, without what is pasted; of a long one its two ends."""
    if len(message) > 2 * END_CHARACTERS:
        tail = len(message) - END_CHARACTERS
        inside = message.count("```", 0, tail) % 2  # the second end begins in code
        message = f"{_FENCE.sub(' ', message[:END_CHARACTERS])}\n{'```' * inside}{message[tail:]}"
    if "```" in message or "~~~" in message:
        message = _FENCE.sub("\n", message)
    task = _task().search(message)
    if task:
        message = message[: task.start()]
    text = _ASIDE.sub(" ", message).translate(_STRAIGHT)
    return "\n".join(line for line in text.splitlines() if not _PASTED_LINE.search(line))


@cache
def _task() -> Pattern:
    """What follows the colon is to be worked on, in any language: "Translate: …"."""
    patterns = [pattern for one in of_all(Recall).values() for pattern in one.task]
    return re.compile(rf"^(?:{'|'.join(patterns)})\b[^\n:]*:", re.IGNORECASE | re.MULTILINE) if patterns else NOTHING


def _sentences(text: str) -> Iterator[_Sentence]:
    for part in _SENTENCE.split(text):
        said = " ".join(_QUOTED.sub(" ", part[-SENTENCE_CHARACTERS:]).split()) if part else ""
        bare = said.strip(_MARKS)
        if bare:
            asks = any(mark in said[-3:] for mark in _ASKED)
            yield _Sentence(bare.lower(), asks, open=said[-1].isalnum())


@cache
def _languages() -> tuple[tuple[Words, Recall], ...]:
    """By which words each is recognised, and its phrases."""
    small, phrases = of_all(FunctionWords), of_all(Recall)
    return tuple((small[name].common | small[name].telling, phrases[name]) for name in phrases if name in small)


def _languages_of(sentences: Sequence[_Sentence]) -> list[Recall]:
    """The language whose small words stand there most often, or those that share that place; else the phrases of all."""
    words = [word for sentence in sentences for word in _LETTERS.findall(sentence.plain)]
    counts = [(sum(word in small for word in words), language) for small, language in _languages()]
    most = max((count for count, _ in counts), default=0)
    return [language for count, language in counts if count == most] if most else _phrases_of_all()


@cache
def _phrases_of_all() -> list[Recall]:
    return [Recall(phrases=language.phrases, to_store=language.to_store) for _, language in _languages()]
