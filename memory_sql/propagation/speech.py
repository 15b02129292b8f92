"""To whom a statement speaks, and in what language: questions, orders to whoever reads, other languages than English."""

from __future__ import annotations

from collections.abc import Sequence

from memory_sql.propagation.tokens import WORD
from memory_sql.propagation.vocabulary import vocabulary


def is_order(lower: str, sentences: Sequence[str]) -> bool:
    listed = vocabulary()
    if listed.to_reader.search(lower) or listed.ordered.search(lower):
        return True
    return any(_opens_order(clause.split()) for sentence in sentences for clause in listed.clause.split(sentence))


def _opens_order(words: Sequence[str]) -> bool:
    """A verb without a subject before it; one that is a noun as well only where an object follows."""
    listed = vocabulary()
    bare = [word.strip(" \"'([.,!:;").lower() for word in words]
    bare = [word for word in bare if word]
    while bare and bare[0] in listed.fillers:
        bare = bare[1:]
    if bare and bare[0] in listed.polite:
        return True
    if not bare or bare[0] not in listed.orders:
        return False
    return bare[0] not in listed.nouns_too or (len(bare) > 1 and bare[1] in listed.objects)


def is_english(sentence: str) -> bool:
    """Small English words, and none of another language."""
    listed = vocabulary()
    keys = [found.lower() for found in WORD.findall(sentence)]
    if any(ord(c) > 0x24F for c in sentence if c.isalpha()) or listed.surely_foreign.intersection(keys):
        return False
    if sum(key in listed.hardly_foreign for key in keys) > 1 or sum(not key.isascii() for key in keys) > 2:
        return False
    english = sum(key in listed.function_words for key in keys)
    return english >= max(1, len(keys) // 8) or (len(keys) <= 7 and sum(key in listed.work for key in keys) >= 2)
