"""Whether a message asks for what was said before, or for a former state. Pure rules over sentences, no model call.

They decide nothing about whether something is shown: what was found does (`memory_sql.retrieval.decide`). Code, quoted
lines and quotations aren't read. Where the language isn't known by its small words, the phrases of all languages count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import FunctionWords, Recall, Words

END_CHARACTERS = 1500  # of a longer message its two ends are read
SENTENCE_CHARACTERS = 240


class Asking(NamedTuple):
    """`recalls`: the kind of phrase by which it asks for what was said before; "": it doesn't. `past`: for a former state."""

    recalls: str = ""
    past: bool = False


_FENCE = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_ASIDE = re.compile(r"^\s*>.*$|`[^`\n]*`|https?://\S+", re.MULTILINE)
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|(?<!\w)'[^'\n]{1,60}'(?!\w)")
_WIDE = "\u3002\uff01\uff1f"  # marks of scripts without spaces
_ABBREVIATION = r"(?<!\b[DMS]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bvs\.)(?<!\b[A-Z]\.)(?<!\.[a-z]\.)"
_SENTENCE = re.compile(rf"(?<=[.!?…\u061f]){_ABBREVIATION}[\"”’')]*\s+|(?<=[{_WIDE}])|\n+|;\s+")
_MARKS = f' \t.!?…,;:-–—*_"“”„«»()[]¡¿{_WIDE}\u061f'
_TOLD = (".", "!", "\u3002", "\uff01")
_STRAIGHT = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'", "\u00b4": "'"})
_LETTERS = re.compile(r"[^\W\d_]+")


class _Sentence(NamedTuple):
    """`plain` is what the patterns see: in lower case, without the marks around it. `told`: it ends as a statement does."""

    plain: str
    told: bool


def read(message: str) -> Asking:
    sentences = list(_sentences(_spoken(message)))
    languages = _languages_of(sentences)
    asking = [one for one in sentences if not any(language.to_store.search(one.plain) for language in languages)]
    kinds = [_kind(one, languages) for one in asking]
    return Asking(
        recalls=next((kind for kind in kinds if kind), ""),
        past=any(
            language.past.search(one.plain)
            for one, kind in zip(asking, kinds, strict=True)
            if kind or not one.told
            for language in languages
        ),
    )


def _kind(sentence: _Sentence, languages: Sequence[Recall]) -> str | None:
    for language in languages:
        found = language.phrases.any.search(sentence.plain)
        if found:
            return found.lastgroup
    return None


def _spoken(message: str) -> str:
    """What the writer says in a message, without what is pasted; of a long one its two ends."""
    if len(message) > 2 * END_CHARACTERS:
        tail = len(message) - END_CHARACTERS
        inside = message.count("```", 0, tail) % 2  # the second end begins in code
        message = f"{_FENCE.sub(' ', message[:END_CHARACTERS])}\n{'```' * inside}{message[tail:]}"
    return _ASIDE.sub(" ", _FENCE.sub("\n", message)).translate(_STRAIGHT)


def _sentences(text: str) -> Iterator[_Sentence]:
    for part in _SENTENCE.split(text):
        said = " ".join(_QUOTED.sub(" ", part[-SENTENCE_CHARACTERS:]).split()) if part else ""
        bare = said.strip(_MARKS)
        if bare:
            yield _Sentence(bare.lower(), said.endswith(_TOLD))


@cache
def _languages() -> tuple[tuple[Words, Recall], ...]:
    """By which words each is recognised, and its phrases."""
    small, phrases = of_all(FunctionWords), of_all(Recall)
    return tuple((small[name].common | small[name].telling, phrases[name]) for name in phrases if name in small)


def _languages_of(sentences: Sequence[_Sentence]) -> list[Recall]:
    """The language whose small words stand there most often, or those that share that place; else all."""
    words = [word for sentence in sentences for word in _LETTERS.findall(sentence.plain)]
    counts = [(sum(word in small for word in words), language) for small, language in _languages()]
    most = max((count for count, _ in counts), default=0)
    return [language for count, language in counts if count == most]
