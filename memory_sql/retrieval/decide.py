"""Whether a message asks for single observations. Pure rules over sentences, no model call.

R078, R080–R083 as C7 settles them. What is pasted (code, quotes, logs) isn't judged, and of a long message only the ends and
its first and last question. The language is known by its small words; where that fails the recall phrases of all languages
count, and names. The phrases stand in the files of the languages: [recall].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal

from memory_sql.config import UNKNOWN_NAMES
from memory_sql.languages.data import names as all_names
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import FunctionWords, Recall, Words
from memory_sql.languages.text import words_of

Reason = Literal[
    "asked",
    "recall phrase",
    "question about the past",
    "question about the user",
    "question about a name",
    "unknown names",
]
REASONS: tuple[Reason, ...] = Reason.__args__  # type: ignore[attr-defined]

END_CHARACTERS = 1500  # of a longer message its two ends are read
SENTENCE_CHARACTERS = 240
CHAT_SENTENCES = 8  # in a longer message only the ends and the questions among them are judged
SHORT_SENTENCES = 2  # names alone say something only in a short message
FRAGMENT_WORDS = 8


@dataclass(frozen=True, slots=True)
class Fired:
    """Why observations are retrieved, and which kind of phrase said so; never a word of the message."""

    reason: Reason
    kind: str = ""


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
_WORD = re.compile(r"[^\W\d_][\w'-]*|[,;:]")
_LETTERS = re.compile(r"[^\W\d_]+")


@cache
def _languages() -> tuple[tuple[Words, Recall], ...]:
    """By which words each is recognised, and its phrases."""
    small, phrases = of_all(FunctionWords), of_all(Recall)
    return tuple((small[name].common | small[name].telling, phrases[name]) for name in phrases if name in small)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What counts whatever the language is."""

    task: re.Pattern[str]
    comma: re.Pattern[str]
    articles: tuple[str, ...]
    determiners: Words
    name_links: Words
    interjections: Words


@cache
def _shared() -> _Shared:
    every = of_all(Recall).values()
    task = "|".join(pattern for one in every for pattern in one.task)
    conjunctions = "|".join(f"{word} " for one in every for word in one.conjunctions)
    return _Shared(
        task=re.compile(rf"^(?:{task})\b[^\n:]*:", re.IGNORECASE | re.MULTILINE),
        comma=re.compile(rf"[,:–—-] +(?:{conjunctions})?"),
        articles=tuple(f"{word} " for one in every for word in one.articles),
        determiners=Words().union(*(one.determiners for one in every)),
        name_links=Words().union(*(one.name_links for one in every)),
        interjections=Words().union(*(one.interjections for one in every)),
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    """`plain` is what the patterns see. `asks`: it ends in a question mark; `open`: in no mark."""

    text: str
    plain: str
    words: frozenset[str]
    asks: bool
    open: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """A sentence in a language: `whole` without polite words before it, `clause` from its question word on."""

    sentence: _Sentence
    whole: str
    clause: str
    asks: bool
    tells: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """The names of the visible scopes, and what the prompt holds anyway."""

    names: frozenset[str]
    context: str

    def holds(self, name: str) -> bool:
        return name in self.names or _stands_in(name, self.context)


def should_retrieve(
    message: str, static_context: str, names: Iterable[str] = (), unknown_names: int = UNKNOWN_NAMES
) -> Fired | None:
    """None when the static layer is enough.

    `static_context` is what the prompt holds anyway; `names` are those known in the visible scopes. `unknown_names` is how
    many that neither holds a message must name to fire for that alone (C7).
    """
    sentences = list(_judged(_spoken(message)))
    known = _Known(_words_of_all(tuple(names)), static_context)
    languages = _languages_of(sentences)
    for language in languages:
        fired = _first_of_rules(sentences, language, known)
        if fired:
            return fired
    if not languages:
        return _fired_cautiously(sentences, known)
    if len(sentences) <= SHORT_SENTENCES and len(_strangers(sentences, languages[0], known)) >= unknown_names:
        return Fired("unknown names", "two_names")
    return None


def _first_of_rules(sentences: Sequence[_Sentence], language: Recall, known: _Known) -> Fired | None:
    read = [_read(sentence, language) for sentence in sentences]
    for rule in _RULES[:-1] if _is_supposed(sentences, language) else _RULES:
        for one in read:
            fired = rule(one, language, known)
            if fired and not language.to_store.search(one.sentence.plain):
                return fired
    return None


def _is_supposed(sentences: Sequence[_Sentence], language: Recall) -> bool:
    return any(language.supposing.search(sentence.plain) for sentence in sentences)


def _fired_cautiously(sentences: Sequence[_Sentence], known: _Known) -> Fired | None:
    """In a language that isn't known: recall phrases of all, and questions with names."""
    for _, language in _languages():
        for one in (_read(sentence, language) for sentence in sentences):
            fired = _recalls(one, language, known) or _names_someone(
                one, replace(language, capitals_are_names=False), known
            )
            if fired:
                return fired
    unspaced = [name for name in known.names if not name.isascii()]
    if any(sentence.asks and name in sentence.plain for sentence in sentences for name in unspaced):
        return Fired("question about a name", "known_name")
    return None


def _spoken(message: str) -> str:
    """What the writer says in a message, without what is pasted; of a long one its two ends."""
    if len(message) > 2 * END_CHARACTERS:
        tail = len(message) - END_CHARACTERS
        inside = message.count("```", 0, tail) % 2  # the second end begins in code
        message = f"{_FENCE.sub(' ', message[:END_CHARACTERS])}\n{'```' * inside}{message[tail:]}"
    if "```" in message or "~~~" in message:
        message = _FENCE.sub("\n", message)
    task = _shared().task.search(message)
    if task:
        message = message[: task.end()]
    text = _ASIDE.sub(" ", message).translate(_STRAIGHT)
    return "\n".join(line for line in text.splitlines() if not _PASTED_LINE.search(line))


def _judged(text: str) -> Iterator[_Sentence]:
    """All sentences of a chat turn; of more than that the ends, and the first and last question."""
    parts = [part for part in _SENTENCE.split(text) if part and not part.isspace()]
    if len(parts) > CHAT_SENTENCES:
        asked = [n for n, part in enumerate(parts) if any(mark in part for mark in _ASKED)]
        kept = dict.fromkeys((0, *asked[:1], *asked[-1:], len(parts) - 1))
        parts = [parts[n] for n in sorted(kept)]
    for part in parts:
        said = " ".join(_QUOTED.sub(" ", part[-SENTENCE_CHARACTERS:]).split())
        bare = said.strip(_MARKS)
        if bare:
            end = said[-3:]
            asks = any(mark in end for mark in _ASKED)
            plain = bare.lower()
            words = frozenset(_LETTERS.findall(plain))
            yield _Sentence(text=bare, plain=plain, words=words, asks=asks, open=said[-1].isalnum())


def _languages_of(sentences: Sequence[_Sentence]) -> list[Recall]:
    """The language whose small words stand there most often, or those that share that place; none: it isn't recognised."""
    counts = [(sum(len(s.words & words) for s in sentences), language) for words, language in _languages()]
    most = max(count for count, _ in counts)
    return [language for count, language in counts if count == most > 0]


def _read(sentence: _Sentence, language: Recall) -> _Read:
    whole, clause = _clauses(sentence, language)
    asks = sentence.asks or (sentence.open and bool(language.question.match(whole)))
    return _Read(sentence, whole, clause, asks, tells=bool(language.telling.match(whole)))


def _recalls(read: _Read, language: Recall, _: _Known) -> Fired | None:
    """What was said before is asked for, whatever the sentence is."""
    found = language.anywhere.any.search(read.sentence.plain)
    return Fired("recall phrase", found.lastgroup or "") if found else None


def _recalls_in_request(read: _Read, language: Recall, _: _Known) -> Fired | None:
    """Phrases that in a statement only tell of something."""
    if not (read.asks or read.tells or _is_fragment(read.sentence) or language.request.match(read.sentence.plain)):
        return None
    found = language.in_request.any.search(read.whole)
    return Fired("recall phrase", found.lastgroup or "") if found else None


def _asks_of_user(read: _Read, language: Recall, known: _Known) -> Fired | None:
    """A question about what the user did, or has, or is."""
    if not read.asks:
        return None
    past = language.of_past.any.search(read.clause)
    found = past or language.of_user.any.search(read.clause)
    if found is None or language.impersonal.search(read.clause):
        return None
    if found.lastgroup == "thing_past" and any(_names_in(read.sentence.text, known)):
        return None  # what has a name of its own is no thing of ours
    return Fired("question about the past" if past else "question about the user", found.lastgroup or "")


def _clauses(sentence: _Sentence, language: Recall) -> tuple[str, str]:
    """The sentence without polite words before it, and the question proper, from its question word on."""
    frame = language.frame.match(sentence.plain)
    whole = sentence.plain[frame.end() :] if frame else sentence.plain
    if sentence.asks and not language.question.match(whole):
        for comma in _shared().comma.finditer(whole):
            if language.question.match(whole[comma.end() :]):
                return whole, whole[comma.end() :]
    return whole, whole


def _is_fragment(sentence: _Sentence) -> bool:
    """Something is named and nothing is said of it: "the restaurant we liked"."""
    return (
        sentence.open and sentence.plain.startswith(_shared().articles) and sentence.plain.count(" ") < FRAGMENT_WORDS
    )


_COMMAS = (",", ";", ":")


@dataclass(frozen=True, slots=True)
class _Name:
    """Capitalised words in a row, as they stand there. `before`: the word before them, "" at the beginning."""

    words: tuple[str, ...]
    before: str
    possessive: bool

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(word.casefold() for word in self.words)

    @property
    def is_common(self) -> bool:
        """Everybody knows it, or it is a thing: "the Louvre", "a Volvo"."""
        familiar = all_names().familiar
        return self.before in _shared().determiners or any(
            key in familiar or key.removesuffix("s") in familiar for key in self.keys
        )


def _names_in(text: str, known: _Known) -> Iterator[_Name]:
    """The names in a clause, but for those of whom is spoken to ("Hi Mia, …", "…, Mia?")."""
    tokens = _WORD.findall(text)
    position = 0
    while position < len(tokens):
        end = _end_of_name(tokens, position, known)
        if end > position and not _is_called(tokens, position, end):
            before = tokens[position - 1].lower() if position else ""
            yield _Name(tuple(map(_bare, tokens[position:end])), before, _owns(tokens[end - 1]))
        position = max(end, position + 1)


def _end_of_name(tokens: Sequence[str], start: int, known: _Known) -> int:
    """Where the name ends that begins there; `start` itself, if none does. "of" and its like join its words."""
    end = start
    while end < len(tokens) and _is_name(tokens[end], end, known):
        end += 1
        if _owns(tokens[end - 1]):
            break
        joined = end
        while joined < len(tokens) and tokens[joined] in _shared().name_links:
            joined += 1
        end = joined if end < joined < len(tokens) and _is_name(tokens[joined], joined, known) else end
    return end


def _is_called(tokens: Sequence[str], start: int, end: int) -> bool:
    """Somebody is spoken to, not of: "Hi Mia, …", "…, Mia?"."""
    before = tokens[start - 1].lower() if start else ""
    apart = end == len(tokens) or tokens[end] in _COMMAS
    return apart and (before in ("", *_COMMAS) or before in _shared().interjections)


def _owns(word: str) -> bool:
    return word.endswith(("'s", "s'"))


def _bare(word: str) -> str:
    return word[:-2] if word.endswith("'s") else word.rstrip("'")


def _is_name(word: str, position: int, known: _Known) -> bool:
    """A given name however it is written; another with a capital, where that isn't the beginning's."""
    bare = _bare(word)
    key = bare.casefold()
    names = all_names()
    if key in names.given and key not in names.words_too and key not in names.familiar:
        return True
    if position == 0 or bare[0].islower() or len(bare) < 2:
        return False
    return key in known.names or not (bare.isupper() or key.startswith("i'"))


def _names_someone(read: _Read, language: Recall, known: _Known) -> Fired | None:
    """A question about somebody: a name that is known here, a given name, or an unknown one in the past."""
    if not (read.asks or read.tells) or not read.whole or language.addressed.search(read.whole):
        return None
    past = bool(language.past_tense.search(read.whole))
    for name in _names_in(read.sentence.text[-len(read.whole) :], known):
        if known.names.intersection(name.keys):
            return Fired("question about a name", "known_name")
        if name.is_common:
            continue
        if name.keys[0] in all_names().given and (len(name.words) == 1 or past or name.possessive):
            return Fired("question about a name", "given_name")
        if not language.capitals_are_names:
            continue
        if all(_stands_in(word, known.context) for word in name.words):
            return Fired("question about a name", "known_name")
        if past and len(name.words) == 1 and (name.possessive or name.before in language.subject_follows):
            return Fired("question about a name", "name_and_past")
    return None


_RULES = (_recalls, _recalls_in_request, _asks_of_user, _names_someone)


def _strangers(sentences: Sequence[_Sentence], language: Recall, known: _Known) -> frozenset[str]:
    """Names that neither the scopes nor the prompt hold, and that not everybody knows (R083)."""
    if not language.capitals_are_names or _is_supposed(sentences, language):
        return frozenset()
    return frozenset(
        " ".join(name.keys)
        for sentence in sentences
        for name in _names_in(sentence.text, known)
        if not name.is_common and not all(known.holds(key) for key in name.keys)
    )


@lru_cache(maxsize=256)
def _words_of_all(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for name in names for word in words_of(name) if len(word) > 1)


def _stands_in(word: str, text: str) -> bool:
    """Whether it stands there as a word, without regard to case."""
    return bool(text) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None
