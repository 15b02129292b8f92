"""The calls of one extraction: all scopes at once; where that goes wrong, once more; then what is missing, one by one.

Where the second answer can't be used either, all of it is missing: less is asked for at a time. Where the model refuses what
it reads, or can't read so much, it is asked about halves, down to one message and to parts of a long one. A single message
that it refuses is set aside; where it refuses all of them, it is asked again later.

An empty answer after one of the wrong shape doesn't say that there is nothing: it is asked about the halves once.

Where nothing is found though a message asks to be remembered, that message is asked about by itself (`single`).

An isolated scope has a call of its own, and nothing but that call's answer goes into it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel

from memory_sql.db.repositories.observations import Evidence
from memory_sql.domain.usage import NO_CALL, Usage
from memory_sql.errors import AnswerError, LanguageModelError, PromptTooLongError, RefusedError, TruncatedError
from memory_sql.formation.answers import ExtractedObservation, Extraction, ExtractionAnswer, OfferedScope, Turn
from memory_sql.formation.requests import Meant
from memory_sql.formation.single import tasks_of
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import sentence_ends
from memory_sql.llm import Answer, LanguageModel, Request, ask

T = TypeVar("T", bound=BaseModel)

SHORT = 2_000  # characters of a message that isn't divided any further
MOST_CALLS = 200  # of one extraction


@dataclass(frozen=True, slots=True)
class Others:
    """What an answer owes to other conversations that its prompt showed as well: their epochs, by their ids.

    `evidence`: messages of theirs behind an observation, by its place in the answer.
    """

    epochs: Mapping[str, int] = field(default_factory=dict)
    evidence: Mapping[int, tuple[Evidence, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extracted:
    """`raw` reads as `extraction`: the answer as it came where one says all of it, else what several say together.

    Where it owes something to `others` it is empty: such an answer is never gone on with, but asked for again.
    """

    extraction: Extraction
    raw: str
    usage: Usage
    prompt_version: str
    others: Others = field(default_factory=Others)
    aside: frozenset[int] = frozenset()  # the numbers of the turns that the model refuses
    unheard: frozenset[int] = frozenset()  # and of those that ask to be remembered, and nothing was found in them
    meant: tuple[Meant, ...] = ()  # by what people ask of the memory itself


async def extract(
    llm: LanguageModel, model: str, task: ExtractionTask, most: int, *, is_last: bool = False
) -> Extracted:
    """What the model finds for the offered scopes; without any it isn't asked.

    `most`: so many characters of conversation are asked about at a time. `is_last`: a message is set aside also where there
    is no other. Raises what the call that failed for good raised; its usage is that of all calls.
    """
    if not task.scopes:
        return Extracted(Extraction(), Extraction().as_json, NO_CALL, "")
    dialogue = _Dialogue(llm, model, most)
    extraction = await dialogue.about_shared(task)
    for scope in task.scopes:
        if scope.isolated:
            extraction += await dialogue.about(task, scope)
    is_one = is_last and len(task.turns) == 1
    if dialogue.refused is not None and dialogue.last is None and not is_one:  # to nothing at all there was an answer
        dialogue.refused.usage = dialogue.usage
        raise dialogue.refused
    if not extraction.observations:
        asking = {n for one in extraction.requests if one.kind == "forget" for n in one.sources}
        extraction += await dialogue.about_signals(task, asking)
    last = dialogue.last
    raw = last.raw if last and last.value.extraction == extraction else extraction.as_json
    aside, unheard = frozenset(dialogue.aside), frozenset(dialogue.unheard)
    return Extracted(extraction, raw, dialogue.usage, dialogue.prompt_version, aside=aside, unheard=unheard)


class _Dialogue:
    """Remembers what the calls have cost, those that failed included."""

    def __init__(self, llm: LanguageModel, model: str, most: int) -> None:
        self._llm = llm
        self._model = model
        self._most = most
        self._calls = 0
        self.aside, self.unheard = set[int](), set[int]()
        self.refused: RefusedError | None = None
        self.usage = Usage("", calls=0)
        self._versions: dict[str, None] = {}
        self.last: Answer[ExtractionAnswer] | None = None

    @property
    def prompt_version(self) -> str:
        """Of all calls, each once."""
        return " ".join(self._versions)

    async def about_shared(self, task: ExtractionTask) -> Extraction:
        shared = replace(task, scopes=tuple(scope for scope in task.scopes if not scope.isolated))
        if not shared.scopes:
            return Extraction()
        found = await self._complete(shared)
        if apart := {scope.alias.casefold() for scope in task.scopes if scope.isolated}:
            found = found.only(lambda item: _named(item) not in apart)
        return found

    async def about(self, task: ExtractionTask, scope: OfferedScope) -> Extraction:
        return _belonging(await self._complete(replace(task, scopes=(scope,))), scope)

    async def about_signals(self, task: ExtractionTask, but: Collection[int]) -> Extraction:
        """What messages tell that ask to be remembered, `but` not these: in those that can't be answered about nothing."""
        found: list[ExtractedObservation] = []
        asked = [single for single in tasks_of(task) if single.turn.n not in self.aside.union(but)]
        for single in asked:
            with suppress(AnswerError, TruncatedError, RefusedError, PromptTooLongError):
                answer = await self._answer(single.request(single.scope.model or self._model))
                found += single.found(answer.value)
        self.unheard = set() if found else {single.turn.n for single in asked}
        return Extraction(tuple(found))

    async def _complete(self, task: ExtractionTask) -> Extraction:
        """All scopes together, then by itself each that is missing; what is too long for one call in parts."""
        if sum(len(turn.text) for turn in task.turns) > self._most and (parts := _halves(task.turns)):
            return await self._of_each(task, parts)
        found = await self._together(task)
        garbled = found.garbled
        for scope in [scope for scope in task.scopes if scope.alias in found.missing]:
            alone = replace(task, scopes=(scope,))
            answer = await self._ask(alone)
            if scope.alias in garbled:
                answer = await self._unless_empty(alone, answer)
            found += _belonging(answer, scope)
        return found

    async def _together(self, task: ExtractionTask) -> Extraction:
        """In one call; of several scopes each is missing where no answer can be used."""
        try:
            return await self._ask_twice(task)
        except (AnswerError, TruncatedError):
            if len(task.scopes) == 1:
                raise
        return Extraction(missing=tuple(scope.alias for scope in task.scopes))

    async def _ask_twice(self, task: ExtractionTask) -> Extraction:
        try:
            return await self._ask(task)
        except (AnswerError, TruncatedError) as error:
            wrong = str(error)
        except (RefusedError, PromptTooLongError) as error:
            return await self._in_halves(task, error)
        try:
            again = await self._ask(task, wrong)
        except (RefusedError, PromptTooLongError) as error:
            return await self._in_halves(task, error)
        return await self._unless_empty(task, again)

    async def _unless_empty(self, task: ExtractionTask, answer: Extraction) -> Extraction:
        """The answer to a second question; where it is empty, what is found in each half."""
        is_empty = not (answer.observations or answer.requests or answer.unknown or answer.missing)
        parts = _halves(task.turns) if is_empty else ()
        return await self._of_each(task, parts, once=True) if parts else answer

    async def _in_halves(self, task: ExtractionTask, error: LanguageModelError) -> Extraction:
        """Raises the error where nothing can be divided, but sets a message aside that is refused."""
        parts = _halves(task.turns)
        if parts and self._calls < MOST_CALLS:
            return await self._of_each(task, parts)
        if not isinstance(error, RefusedError) or len(task.turns) > 1:
            raise error
        try:
            return await self._ask(task)  # some refuse by chance
        except RefusedError as again:
            error = again
        self.refused = error
        self.aside |= {turn.n for turn in task.turns}
        return Extraction()

    async def _of_each(
        self, task: ExtractionTask, parts: Sequence[Sequence[Turn]], *, once: bool = False
    ) -> Extraction:
        found = Extraction()
        for turns in parts:
            part = replace(task, turns=tuple(turns))
            found += await (self._ask(part) if once else self._complete(part))
        return found

    async def _ask(self, task: ExtractionTask, wrong: str | None = None) -> Extraction:
        self._calls += 1
        models = {scope.model for scope in task.scopes}  # of an isolated scope, which is asked about alone
        request = task.request((models.pop() if len(models) == 1 else None) or self._model, wrong)
        self.last = answer = await self._answer(request)
        return answer.value.extraction

    async def _answer(self, request: Request[T]) -> Answer[T]:
        try:
            answer = await ask(self._llm, request)
        except LanguageModelError as error:
            known = error.usage if isinstance(error.usage, Usage) else Usage("")
            error.usage = self.usage = self.usage + known
            raise
        self.usage += answer.usage
        self._versions[request.prompt_version] = None
        return answer


def _halves(turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
    """Of several turns the two halves; of a long one its text, divided at a sentence near the middle. None of a short one."""
    if len(turns) > 1:
        middle = len(turns) // 2
        return turns[:middle], turns[middle:]
    (turn,) = turns
    if len(turn.text) <= SHORT:
        return ()
    half = len(turn.text) // 2
    end = min(sentence_ends(turn.text), key=lambda end: abs(end - half))
    end = end if 0 < end < len(turn.text) else half
    return [replace(turn, text=turn.text[:end].strip())], [replace(turn, text=turn.text[end:].strip())]


def _named(item: ExtractedObservation) -> str:
    return (item.scope or "").strip().casefold()


def _belonging(found: Extraction, scope: OfferedScope) -> Extraction:
    """What names no scope is of the only one that was offered; what names another is not: it was asked for elsewhere."""
    mine = found.only(lambda item: _named(item) in ("", scope.alias.casefold()))
    return replace(
        mine, observations=tuple(item.model_copy(update={"scope": scope.alias}) for item in mine.observations)
    )
