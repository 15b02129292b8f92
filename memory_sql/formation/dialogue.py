"""The calls of one extraction: all scopes at once; where that goes wrong, once more; then what is missing, one by one.

Where the second answer can't be used either, all of it is missing: less is asked for at a time.

An isolated scope has a call of its own, and nothing but that call's answer goes into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from memory_sql.db.repositories.observations import Evidence
from memory_sql.domain.usage import NO_CALL, Usage
from memory_sql.errors import AnswerError, LanguageModelError, TruncatedError
from memory_sql.formation.answers import ExtractedObservation, Extraction, ExtractionAnswer, OfferedScope
from memory_sql.formation.task import ExtractionTask
from memory_sql.llm import Answer, LanguageModel, ask


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


async def extract(llm: LanguageModel, model: str, task: ExtractionTask) -> Extracted:
    """What the model finds for the offered scopes; without any it isn't asked.

    Raises what the call that failed for good raised; its usage is that of all calls.
    """
    if not task.scopes:
        return Extracted(Extraction(), Extraction().as_json, NO_CALL, "")
    dialogue = _Dialogue(llm, model)
    extraction = await dialogue.about_shared(task)
    for scope in task.scopes:
        if scope.isolated:
            extraction += await dialogue.about(task, scope)
    last = dialogue.last
    raw = last.raw if last and last.value.extraction == extraction else extraction.as_json
    return Extracted(extraction, raw, dialogue.usage, dialogue.prompt_version)


class _Dialogue:
    """Remembers what the calls have cost, those that failed included."""

    def __init__(self, llm: LanguageModel, model: str) -> None:
        self._llm = llm
        self._model = model
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
        found = await self._together(shared)
        if apart := {scope.alias.casefold() for scope in task.scopes if scope.isolated}:
            found = found.only(lambda item: _named(item) not in apart)
        left_out = [scope for scope in shared.scopes if scope.alias in found.missing]
        for scope in left_out:
            found += _belonging(await self._ask(replace(task, scopes=(scope,))), scope)
        return found

    async def about(self, task: ExtractionTask, scope: OfferedScope) -> Extraction:
        return _belonging(await self._ask_twice(replace(task, scopes=(scope,))), scope)

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
        return await self._ask(task, wrong)

    async def _ask(self, task: ExtractionTask, wrong: str | None = None) -> Extraction:
        models = {scope.model for scope in task.scopes}  # of an isolated scope, which is asked about alone
        request = task.request((models.pop() if len(models) == 1 else None) or self._model, wrong)
        try:
            answer = await ask(self._llm, request)
        except LanguageModelError as error:
            known = error.usage if isinstance(error.usage, Usage) else Usage("")
            error.usage = self.usage = self.usage + known
            raise
        self.usage += answer.usage
        self._versions[request.prompt_version] = None
        self.last = answer
        return answer.value.extraction


def _named(item: ExtractedObservation) -> str:
    return (item.scope or "").strip().casefold()


def _belonging(found: Extraction, scope: OfferedScope) -> Extraction:
    """What names no scope is of the only one that was offered; what names another is not: it was asked for elsewhere."""
    mine = found.only(lambda item: _named(item) in ("", scope.alias.casefold()))
    return replace(
        mine, observations=tuple(item.model_copy(update={"scope": scope.alias}) for item in mine.observations)
    )
