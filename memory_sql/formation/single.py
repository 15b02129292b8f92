"""One message, asked about by itself and with a small prompt: what a model finds that found nothing in the conversation.

Small models are lost in the instructions of an extraction. Where our own rules have seen a signal ("I prefer …") and nothing
was found, each such message is put to them once more in this way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from memory_sql.formation.answers import ExtractedObservation, OfferedScope, Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import FunctionWords
from memory_sql.languages.wording import is_among, pieces, telling
from memory_sql.llm import Request, prompts
from memory_sql.llm.answers import AlsoRead
from memory_sql.llm.notation import as_data, in_lines, mark_for, minute_of

MOST_SINGLE = 5  # messages of one extraction that are asked about so


class Facts(AlsoRead):  # no docstring: it would go into the schema, and so to the model
    facts: list[str]

    @classmethod
    def in_form(cls, value: object) -> object:
        """Sentences in a list, under a name of the model's or under none, alone or each in an object."""
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        items = value if isinstance(value, list) else [value]
        texts = [next(iter(item.values())) if isinstance(item, dict) and len(item) == 1 else item for item in items]
        return {"facts": texts} if all(isinstance(text, str) for text in texts) else None


@dataclass(frozen=True, slots=True)
class SingleTask:
    """`scope`: of who wrote it."""

    turn: Turn
    scope: OfferedScope

    def request(self, model: str) -> Request[Facts]:
        prompt, turn = prompts.load("memory_sql.formation", "one_message", "one_message.md"), self.turn
        (text,) = in_lines([turn.text])
        mark = mark_for(text)
        speaker = as_data(turn.speaker) if turn.speaker != turn.role else "The user"
        instructions, asked = prompt.render(boundary=mark, speaker=speaker, said_at=minute_of(turn.said_at), text=text)
        return Request("extraction", model, instructions, asked, Facts, self, prompt.version, mark)

    def by_rule(self) -> Facts:
        """The rules have read the message already."""
        return Facts(facts=[])

    def found(self, facts: Facts) -> tuple[ExtractedObservation, ...]:
        said = (fact.strip() for fact in facts.facts)
        return tuple(
            ExtractedObservation(content=fact, sources=[self.turn.n], scope=self.scope.alias) for fact in said if fact
        )


def tasks_of(task: ExtractionTask) -> Sequence[SingleTask]:
    """The messages with a signal that memory doesn't know yet, of people whose scope takes what they say about themselves."""
    own = {scope.alias: scope for scope in task.scopes if _takes_all(scope)}
    return list(_asked(task, own))[:MOST_SINGLE]


def _asked(task: ExtractionTask, own: dict[str, OfferedScope]) -> Iterator[SingleTask]:
    for turn in task.turns:
        scope = own.get(f"individual_{turn.person}" if turn.person else "individual")
        if turn.signals and scope is not None and not _is_known(turn, scope):
            yield SingleTask(turn, replace(scope, knows=()))


@cache
def _asking() -> frozenset[str]:
    return frozenset[str]().union(*(words.asking for words in of_all(FunctionWords).values()))


def _takes_all(scope: OfferedScope) -> bool:
    """A scope with words or limits of its own isn't asked about in other words than those."""
    return scope.kind == "individual" and not (scope.isolated or scope.name or scope.words or scope.max_items == 0)


def _is_known(turn: Turn, scope: OfferedScope) -> bool:
    """Whether every word of it is; those by which memory is asked for anything ("remember that") tell nothing."""
    known, words = frozenset[str]().union(*map(pieces, scope.knows)), telling(turn.text) - _asking()
    return bool(words) and all(is_among(word, known) for word in words)
