"""Finds secrets, which are masked, and personal data in a text. By local rules, without a model.

Pure. `classify` looks for words and phrases (`personal`); `mask` replaces what looks like a secret (`secrets`). Both are
linear in the length of the text, whatever it contains. Neither puts any of the text into an error or a log.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from memory_sql.languages.anchors import letters_in
from memory_sql.languages.tables import Words
from memory_sql.privacy import personal, secrets
from memory_sql.privacy.cues import cued
from memory_sql.privacy.spoken import spoken

CATEGORIES = ("contact", "credential", "financial", "health", "identity", "intimate", "location")
SENSITIVE = frozenset({"credential", "financial", "health", "identity", "intimate"})
FINANCIAL_KINDS = frozenset({"card", "iban", "account number"})
_MARK = re.compile(r"\[secret: ([a-z ]{2,20})\]")
MOST_LETTERS = 40  # of a word
_WORD = re.compile(rf"[^\W\d_]{{2,{MOST_LETTERS}}}")
_PLAIN = re.compile(r"[^\W\d_][^\W\d_A-Z]*(?:['’-][^\W\d_]+)*")  # a word as it may occur in any sentence
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d\d")
_CLOSING = ".,;:!?)]}…"
_ENDS = re.compile(r"[\"'`“”»]?(?:\s*$|[ \t]*[\n\r.,;!?)])")
_QUOTES = "\"'`“”„«»"
_DULL = re.compile(
    r"v?\d[\d.,:/+-]*[a-zA-Z%]{0,3}|[a-zA-Z]{1,12}[-_#]?\d{1,6}|(?:[a-zA-Z]{2,20}[-_ ]){1,5}[a-zA-Z]{0,12}\d{0,4}|"
    r"[\w./-]{1,200}\.[a-z]{1,5}\d?|\d{4}-\d\d-\d\dT[\d:.]+Z?"
)
_DOUBLED = bytes(48) + bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)) + bytes(198)  # by a digit's ASCII code: twice its value
_NUMBERS = {ord("A") + n: str(10 + n) for n in range(26)}
_PLAINLY = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # full-width forms
    **dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
    **dict.fromkeys((0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF), ""),
    0x2011: "-",
    0x3002: ".",
}
_OTHERWISE = re.compile("[" + "".join(map(chr, sorted(_PLAINLY))) + "]")
_EVEN = {
    **{code: unicodedata.normalize("NFKD", chr(code)).lower()[0] for code in range(0xC0, 0x250) if chr(code).isalpha()},
    **{code: plain.lower() for code, plain in _PLAINLY.items()},
    **dict.fromkeys(range(0x300, 0x370)),
    0x2019: "'",
    ord("ß"): "ss",
}


class Classification(NamedTuple):
    """`categories`: sorted, from `CATEGORIES`; empty: nothing personal was found."""

    categories: tuple[str, ...]
    sensitivity: Literal["private", "sensitive"]


class Masked(NamedTuple):
    """The text with a mark in place of each secret. `found`: the kinds of the secrets, sorted, one for each secret."""

    text: str
    found: tuple[str, ...]


def holds_mark(text: str) -> bool:
    """Whether a secret was masked in it."""
    return _MARK.search(text) is not None


def classify(text: str, *, is_plain: bool = False) -> Classification:
    """What kinds of personal data the text contains, as far as rules can tell.

    A mark of `mask` counts as the secret that it replaced.

    `is_plain`: `mask` found nothing in this same text.
    """
    masked, words = (Masked(text, ()), None) if is_plain else _mask(text)
    text = masked.text
    found = {_category(kind) for kind in _MARK.findall(text)} if "[secret: " in text else set[str]()
    even = text.lower() if text.isascii() else text.lower().translate(_EVEN)
    words = letters_in(even) if words is None else words
    rules = personal.rules()
    for word in rules.every_word & _shortened(words, even):
        found |= rules.words[word]
    for category, phrase in rules.phrases.worth_trying(even, words):
        if category not in found and personal.compiled(phrase).search(text if category == "location" else even):
            found.add(category)
    if "@" in even and _names_mailbox(even, rules.mailboxes):
        found.add("contact")
    if _DIGIT.search(even) is not None:
        found.update(_told_by_numbers(text, even))
    return Classification(tuple(sorted(found)), "sensitive" if found & SENSITIVE else "private")


def _shortened(words: frozenset[str], even: str) -> frozenset[str]:
    """Adds pieces of those longer than any word."""
    return frozenset(_WORD.findall(even)) if max(map(len, words), default=0) > MOST_LETTERS else words


def _told_by_numbers(text: str, even: str) -> Iterator[str]:
    if personal.NEAR_NUMBERS.search(even) is not None:
        yield from (category for category, form in personal.NUMBERS.items() if form.search(even))
    if not text.isascii() and personal.rules().streets.search(text):
        yield "location"


def mask(text: str) -> Masked:
    """The text with `[secret: kind]` in place of each secret. A text that is already masked stays unchanged."""
    return _mask(text)[0]


def _mask(text: str) -> tuple[Masked, frozenset[str] | None]:
    """Also returns its words in lower case, if the text is ASCII without secrets."""
    seen, found = _Seen.of(text), list[str]()
    seen, words = _by_cues(seen, found)
    if _NUMBER.search(seen.text) is not None:
        before = len(found)
        if secrets.NEAR_CARDS.search(seen.text) is not None:
            seen = _replaced(seen, ((span, "card") for span in _cards(seen.text)), found)
        if secrets.IBAN.search(seen.text) is not None:
            seen = _replaced(seen, ((span, "iban") for span in _ibans(seen.text)), found)
        if len(found) > before:  # what stood right beside a number wasn't seen
            seen, _ = _by_cues(seen, found)
    if found:
        return Masked(seen.original, tuple(sorted(found))), None
    return Masked(text, ()), words if text.isascii() else None


def _by_cues(seen: _Seen, found: list[str]) -> tuple[_Seen, frozenset[str]]:
    """Also returns the words in lower case."""
    lower = seen.text.lower()
    words = letters_in(lower)
    for rule in cued(lower, words):
        seen = _replaced(seen, ((span, rule.kind) for span in _secrets(rule, seen.text)), found)
    return seen, words


class _Seen(NamedTuple):
    """A text as it is read: without invisible characters, in plain letters and spaces.

    `pieces`: what each character replaces; None: each character is the original.
    """

    text: str
    pieces: Sequence[str] | None = None

    @classmethod
    def of(cls, text: str) -> _Seen:
        if text.isascii() or _OTHERWISE.search(text) is None:
            return cls(text)
        characters, pieces, unseen = [], [], ""
        for character in text:
            plain = _PLAINLY.get(ord(character), character)
            if plain:
                characters.append(plain)
                pieces.append(unseen + character)
                unseen = ""
            elif pieces:
                pieces[-1] += character
            else:
                unseen += character
        return cls("".join(characters), pieces)

    @property
    def original(self) -> str:
        return self.text if self.pieces is None else "".join(self.pieces)


def masked_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A JSON value with the secrets in its texts masked, and their kinds. A text is judged together with its key."""
    if not _is_worth_masking("\n".join(_told(value))):
        return value, ()
    found: list[str] = []
    return _masked_value(value, found), tuple(sorted(found))


def _told(value: Any, key: str = "") -> Iterator[str]:
    """All texts of a JSON value, each behind the key it stands under, and the keys."""
    match value:
        case str():
            yield f"{key}={value}"
        case list():
            for item in value:
                yield from _told(item, key)
        case dict():
            for name, item in value.items():
                yield name
                yield from _told(item, name)


def _is_worth_masking(text: str) -> bool:
    """False: nothing is a secret in any line of it, with what stands before a `=` in that line or without."""
    seen = _Seen.of(text).text
    lower = seen.lower()
    if cued(lower, letters_in(lower)):
        return True
    return secrets.NEAR_CARDS.search(seen) is not None or secrets.IBAN.search(seen) is not None


def _masked_value(value: Any, found: list[str], key: str = "") -> Any:
    match value:
        case str():
            return _masked_text(value, found, key)
        case list():
            return [_masked_value(item, found, key) for item in value]
        case dict():
            return {_masked_text(k, found, ""): _masked_value(item, found, k) for k, item in value.items()}
        case _:
            return value


def _masked_text(text: str, found: list[str], key: str) -> str:
    """`{"password": "x"}` says that x is a password; neither text alone does."""
    done = mask(text)
    if key and not done.found and text and "\n" not in text:
        said = mask(f"{key}={text}")
        if said.found and said.text.startswith(f"{key}="):
            done = Masked(said.text[len(key) + 1 :], said.found)
    found += done.found
    return done.text


def _category(kind: str) -> str:
    return "financial" if kind in FINANCIAL_KINDS else "credential"


def _names_mailbox(even: str, firms: Words) -> bool:
    """Whether the text contains a person's e-mail address, not only that of a firm's desk."""
    for at in personal.EMAIL.finditer(even):
        local = personal.LOCAL_PART.search(even, max(0, at.start() - 64), at.start())
        if local is not None and local[0].partition("+")[0] not in firms:
            return True
    return False


def _replaced(seen: _Seen, spans: Iterator[tuple[tuple[int, int], str]], found: list[str]) -> _Seen:
    parts: list[str] = []
    pieces: list[str] = []
    end = 0
    for (first, last), kind in spans:
        if first < end:
            continue
        mark = f"[secret: {kind}]"
        parts += [seen.text[end:first], mark]
        if seen.pieces is not None:
            pieces += [*seen.pieces[end:first], *mark]
        end = last
        found.append(kind)
    if not parts:
        return seen
    text = "".join((*parts, seen.text[end:]))
    return _Seen(text, None if seen.pieces is None else [*pieces, *seen.pieces[end:]])


def _secrets(rule: secrets.SecretRule, text: str) -> Iterator[tuple[int, int]]:
    for match in rule.compiled().finditer(text):
        first, last = match.span("secret")
        if rule.look != "any":
            value = match["secret"].rstrip(_CLOSING)
            first, last = first + len(value) - len(value.lstrip(_QUOTES)), first + len(value.rstrip(_QUOTES))
        if (
            first < last
            and not text.startswith(("[secret", "secret: "), first)
            and _MARK.match(text, max(0, first - len("[secret: "))) is None
            and _looks(rule.look, match, first, last)
        ):
            yield first, last


def _looks(look: secrets.Look, match: re.Match[str], first: int, last: int) -> bool:
    value = match.string[first:last]
    if look == "password":
        return _is_password(value, match.string[last : last + 40], match, is_quoted=first > match.start("secret"))
    return look != "strong" or _is_strong(value)


def _is_password(value: str, rest: str, match: re.Match[str], *, is_quoted: bool) -> bool:
    """Whether this is a password and not something said about one. A plain word counts only at the end of its sentence."""
    if (
        len(value) < 3
        or value.lower() in spoken().plain
        or value[0] in "<{$*…%[("
        or not {"(", "["}.isdisjoint(value)
        or "://" in value
    ):
        return False
    if value.isdigit():
        return len(value) >= 4 and spoken().counted.match(rest) is None
    if is_quoted or _PLAIN.fullmatch(value) is None:
        return len(value) >= 4 and any(character.isalnum() for character in value)
    ends = _ENDS.match(rest) is not None
    return (
        ends
        and len(value) >= 5
        and match["to"].strip().lower() not in spoken().into
        and not value.endswith(("ed", "ing"))
    )


def _is_strong(value: str) -> bool:
    """Letters and digits, long, and not a path, address, or name of a variable or file."""
    if not 8 <= len(value) <= 4000 or value[0] in "<{$*%[(" or "://" in value or "(" in value or value.count(".") > 2:
        return False
    digits = sum(character.isdigit() for character in value)
    return digits > 0 and digits < len(value) and any(character.isalpha() for character in value) and not _dull(value)


def _dull(value: str) -> bool:
    """Dates, versions, sizes, file names, hyphenated words with a number at the end."""
    return _DULL.fullmatch(value) is not None


def _cards(text: str) -> Iterator[tuple[int, int]]:
    end = 0
    for match in secrets.CARD.finditer(text):
        digits = match["secret"].replace(match["by"] or " ", "")
        if match.start() >= end and secrets.ISSUERS.fullmatch(digits) and _passes_luhn(digits.encode()):
            yield match.span("secret")
            end = match.end("secret")


def _passes_luhn(digits: bytes) -> bool:
    """ISO/IEC 7812."""
    return (sum(digits[-1::-2]) - 48 * len(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))) % 10 == 0


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for match in secrets.IBAN.finditer(text):
        first = match.start() - 2
        length = secrets.IBAN_LENGTHS.get(text[first : match.start()].upper(), 0)
        near = text[first : first + 2 * length]
        iban = near.replace(" ", "").replace("-", "")[:length]
        if 0 < length == len(iban) and iban.isascii() and iban.isalnum() and _passes_mod97(iban.upper()):
            end = first + _end_of(near, length)
            if not text[end : end + 1].isalnum():
                yield first, end


def _end_of(text: str, length: int) -> int:
    """The position after so many letters and digits."""
    places = (n for n, character in enumerate(text, 1) if character not in " -")
    return next(islice(places, length - 1, None))


def _passes_mod97(iban: str) -> bool:
    """ISO 13616."""
    return int((iban[4:] + iban[:4]).translate(_NUMBERS)) % 97 == 1
