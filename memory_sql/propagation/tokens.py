"""The words of a statement, as the rules of propagation see them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory_sql.languages.words import fold
from memory_sql.propagation.vocabulary import vocabulary

WORD = re.compile(r"[^\W_](?:[\w'’.+#/&-]*[\w+#])?")
SENTENCE = re.compile(r"(?<=[.!?…])[\"”’')]*\s+|\n+")
JOINED = re.compile(r"[-/_+&.]")
STRAIGHT = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'", "\u00b4": "'"})
_POSSESSIVE = re.compile(r"(?:['’]s|(?<=s)['’])$", re.IGNORECASE)
_ENDINGS = ("ions", "ion", "ments", "ment", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "ly", "s", "e")


@dataclass(frozen=True, slots=True)
class Token:
    """A word. `key`: folded, without a possessive ending; `owns`: it had such an ending; `first`: it begins a sentence."""

    word: str
    key: str
    owns: bool
    first: bool

    @property
    def capital(self) -> bool:
        return self.word[0].isupper()


def tokens_of(text: str) -> list[Token]:
    tokens: list[Token] = []
    for sentence in SENTENCE.split(text.translate(STRAIGHT)):
        for number, found in enumerate(WORD.findall(sentence)):
            bare = _POSSESSIVE.sub("", found) or found
            tokens.append(Token(found, fold(bare), bare != found, number == 0))
    return tokens


def stem(key: str) -> str:
    key = vocabulary().same_words.get(key, key)
    for ending in _ENDINGS:
        if key.endswith(ending) and len(key) - len(ending) >= 3:
            kept = key[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            return kept[:-1] if len(kept) > 3 and kept[-1] == kept[-2] and kept[-1] not in "sl" else kept
    return key
