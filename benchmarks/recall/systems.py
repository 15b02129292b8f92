"""The systems: this library in several forms, and others on the same turns. A rival is imported only when it is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module

from benchmarks.recall.data import FORMS, Form, Question, Turn

DEPTH = 20  # results that are asked for; MRR looks no further

Ask = Callable[[Question], Awaitable[Sequence[str]]]
"""The ids of the turns found, best first; at most `DEPTH`."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a system stores, and the form of the texts if it keeps nothing else."""

    turns: tuple[Turn, ...]
    form: Form

    @property
    def texts(self) -> list[str]:
        return [turn.text(self.form) for turn in self.turns]

    def by_conversation(self) -> Mapping[str, tuple[Turn, ...]]:
        names = dict.fromkeys(turn.conversation for turn in self.turns)
        return {name: tuple(turn for turn in self.turns if turn.conversation == name) for name in names}


Opener = Callable[[Corpus, str], AbstractAsyncContextManager[Ask]]
"""Takes a corpus and the URL of a server, and returns the loaded system."""


@dataclass(frozen=True, slots=True)
class System:
    """Where its `Opener` is, and which forms of texts it takes. The best of these is reported.

    `extension`: the extension that the server must have.
    """

    module: str
    opener: str
    forms: tuple[Form, ...] = FORMS
    extension: str | None = None

    def load(self) -> Opener:
        """Raises `ModuleNotFoundError` if something that it needs isn't installed."""
        opener: Opener = getattr(import_module(f"benchmarks.recall.{self.module}"), self.opener)
        return opener


OWN = {
    "ours": System("ours", "observed", ("plain",)),
    "messages": System("ours", "added", ("plain",)),
    "meaning": System("ours", "by_meaning", ("plain",)),
}
SYSTEMS: Mapping[str, System] = OWN | {
    "literal": System("rivals.fulltext", "every_word"),
    "tsrank": System("rivals.fulltext", "any_word"),
    "bm25s": System("rivals.bm25", "ranked"),
    "vectors": System("rivals.vectors", "nearest"),
    "langgraph": System("rivals.langgraph_store", "stored", extension="vector"),
    "mem0": System("rivals.mem0_store", "stored", extension="vector"),
}
