"""From which messages an observation comes: those that hold most of it, where the model names none, and those that any of
its words come from. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from math import ceil
from typing import NamedTuple

from memory_sql.db.repositories.conversations import BufferedMessage
from memory_sql.languages.naming import capitals_in
from memory_sql.languages.text import words_of
from memory_sql.languages.wording import is_among, pieces, says_nothing, telling
from memory_sql.privacy.classify import classify

AGENT_ROLES = frozenset({"assistant", "agent"})
ECHO_SHARE = 0.6  # of a text's words in what the agent said, and none in what people said: it is the agent's
ENOUGH = 2  # words that a message shares by more than chance
_FIRST = 4  # letters that forms of one word have in common


class From(NamedTuple):
    """The messages that an observation is `named` to be taken from; `every`: these, and others whose words it has."""

    named: tuple[BufferedMessage, ...]
    every: tuple[BufferedMessage, ...]

    @property
    def borrowed(self) -> frozenset[int]:
        return frozenset(message.number for message in self.every) - {message.number for message in self.named}


class Sources:
    """Of one window. `spoken`: what the prompt showed of it; `called`: by what else it named people and scopes;
    `confided`: the numbers of messages that were said in confidence.

    Each message is read once for all: an answer may hold ten thousand observations.
    """

    def __init__(self, spoken: Sequence[BufferedMessage], called: Collection[str], confided: Collection[int]) -> None:
        self._spoken = {message.number: message for message in spoken}
        self._called, self._confided = called, confided
        self._known, self._special = dict[str, set[int]](), dict[str, bool]()

    def closest(self, text: str) -> tuple[BufferedMessage, ...]:
        """The user's messages that share most words with the text; else the agent's that hold most of it; else all."""
        spoken = tuple(self._spoken.values())
        said = tuple(message for message in spoken if message.role == "user")
        agents = [message for message in spoken if message.role in AGENT_ROLES]
        most = ceil(len(set(words_of(text))) * ECHO_SHARE)
        return self._sharing(text, said, 1) or self._sharing(text, agents, most) or said or spoken

    def _sharing(self, text: str, messages: Sequence[BufferedMessage], least: int) -> tuple[BufferedMessage, ...]:
        """The messages that share most words with the text; none where that is fewer than `least`."""
        words = set(words_of(text))
        shared = [len(words & self._words[message.number]) for message in messages]
        best = max(shared, default=0)
        return tuple(m for m, count in zip(messages, shared, strict=True) if count == best >= max(least, 1))

    @cached_property
    def _words(self) -> dict[int, frozenset[str]]:
        return {number: frozenset(words_of(message.content or "")) for number, message in self._spoken.items()}

    def behind(self, text: str, named: Sequence[BufferedMessage]) -> From:
        """These, and as few others as it takes for each telling word of the text to stand in one of them.

        First the messages of those who said these: then other people's, then what the agent and tools said, whose words
        may be a person's said again. So a word that a person said leads to that person. What another person said or what
        was said in confidence would change whose it is: one common word isn't enough.
        """
        numbers = {message.number for message in named}
        said = {message.number for message in named if message.role == "user"}
        missing = {word: there for word, there in self._places(text) if said.isdisjoint(there)}
        if not missing:
            return From(tuple(named), tuple(named))
        users = {self._spoken[number].user_id for number in said}
        found, last = set(numbers), max(numbers)
        people = [n for n, message in self._spoken.items() if message.role == "user" and n not in numbers]
        own = {n for n in people if self._spoken[n].user_id in users}
        found |= _fewest(missing, own, last, self._tells_alone(own.difference(self._confided)))
        found |= _fewest(missing, {*people} - own, last, self._tells_alone())
        missing = {word: there for word, there in missing.items() if numbers.isdisjoint(there)}
        others = {n for n, message in self._spoken.items() if message.role != "user"}
        found |= _fewest(missing, others, last, self._tells_alone(others))
        return From(tuple(named), tuple(self._spoken[n] for n in sorted(found)))

    def lending(self, text: str, own: Collection[int], named: Collection[int]) -> set[int]:
        """As few others as it takes for the words of the text that stand in none of its `own` messages, nor in those `named`.

        One common word isn't enough.
        """
        known = {*own, *named}
        missing = {word: there for word, there in self._places(text) if known.isdisjoint(there)}
        people = {n for n, message in self._spoken.items() if message.role == "user"}
        found = _fewest(missing, people, 0, self._tells_alone())
        return found | _fewest(missing, self._spoken.keys() - people, 0, self._tells_alone())

    def _places(self, text: str) -> Iterator[tuple[str, Collection[int]]]:
        """The telling words of the text that stand in any message, and in which."""
        for word in telling(text, self._called):
            if not says_nothing(word) and (there := self._where(word)):
                yield word, there

    def _where(self, word: str) -> Collection[int]:
        if word not in self._known:
            alike = self._index.get(word[:_FIRST], {})
            self._known[word] = {n for other, there in alike.items() if is_among(word, (other,)) for n in there}
        return self._known[word]

    @cached_property
    def _index(self) -> dict[str, dict[str, set[int]]]:
        """In which messages each word stands, by how the words begin."""
        index = defaultdict[str, dict[str, set[int]]](dict)
        for number, message in self._spoken.items():
            for word in pieces(message.content or ""):
                index[word[:_FIRST]].setdefault(word, set()).add(number)
        return index

    def _tells_alone(self, common: Collection[int] = ()) -> Callable[[str, int], bool]:
        """Whether one word of a message makes it a source; of the messages `common` it is every word but a figure."""
        return lambda word, number: not word.isdigit() and (number in common or self._is_special(word))

    def _is_special(self, word: str) -> bool:
        """A name, a noun with a capital, what has no case, what is personal."""
        if word not in self._special:
            is_caseless = word.upper() == word.lower()
            self._special[word] = is_caseless or word in self._capitals or bool(classify(word).categories)
        return self._special[word]

    @cached_property
    def _capitals(self) -> frozenset[str]:
        found = (capitals_in(message.content or "") for message in self._spoken.values())
        return pieces(" ".join(sorted(frozenset[str]().union(*found))))


def _fewest(
    missing: dict[str, Collection[int]], among: Collection[int], last: int, tells_alone: Callable[[str, int], bool]
) -> set[int]:
    """One after the other the messages that hold most of these words, of which it takes out what they hold.

    Of those that hold as many the nearest to `last`, rather before it. One word alone counts where it `tells_alone`.
    """
    found = set[int]()
    while True:
        shared = Counter(n for there in missing.values() for n in there if n in among)
        telling_alone = {n for word, there in missing.items() for n in there if n in among and tells_alone(word, n)}
        counted = [n for n, count in shared.items() if count >= ENOUGH or n in telling_alone]
        if not counted:
            return found
        best = max(counted, key=lambda n: (shared[n], n <= last, -abs(n - last)))
        found.add(best)
        for word in [word for word, there in missing.items() if best in there]:
            del missing[word]
