"""Whether the letters of a few words are such as stand in a language, where its small words are too few to tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from memory_sql.errors import ConfigurationError

_WORD = re.compile(r"[^\W\d_]+")
_UNSEEN = -1  # three letters that are rare in every language, or of another script
_OF_A_NAME = 1 / 2  # what a word with a capital counts: it may be a name, which is of any language


def likeness(text: str, language: str) -> float:
    """How much its letters speak for the language, on average; below 0: for another, as for a language that isn't listed."""
    weights, found, whole = _weights().get(language, {}), 0.0, 0.0
    for word in _WORD.findall(text):
        counts = _OF_A_NAME if word[0].isupper() else 1.0
        threes = list(_threes(word.lower()))
        found += counts * sum(weights.get(letters, _UNSEEN) for letters in threes)
        whole += counts * len(threes)
    return found / whole if whole else 0.0


def _threes(word: str) -> Iterator[str]:
    """Each three letters one after the other, with the borders of the word."""
    bounded = f"_{word}_"
    return (bounded[n : n + 3] for n in range(len(bounded) - 2))


@cache
def _weights() -> Mapping[str, Mapping[str, int]]:
    try:
        raw = tomllib.loads(files("memory_sql.propagation").joinpath("letters.toml").read_text("utf-8"))
    except (FileNotFoundError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"letters.toml can't be read: {error}") from error
    return {
        language: {three: int(weight) for weight, threes in by_weight.items() for three in threes.split()}
        for language, by_weight in raw.items()
    }
