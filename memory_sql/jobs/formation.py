"""Formation, as a job: of a conversation's messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.conversations import ConversationRepository, ConversationState
from memory_sql.db.repositories.formations import FormationRepository
from memory_sql.domain.results import FormResult, RunDueResult
from memory_sql.formation import formation
from memory_sql.formation.dialogue import Extracted
from memory_sql.formation.formation import ConversationKey
from memory_sql.formation.window import Loaded
from memory_sql.jobs.job import Step
from memory_sql.llm import LanguageModel


@dataclass(frozen=True)
class Formation:
    llm: LanguageModel

    due_reason = "due"
    applies_alone = True
    take = staticmethod(formation.take)
    refuse = staticmethod(formation.refuse_untaken)
    load_claimed = staticmethod(formation.load_claimed)
    apply = staticmethod(formation.apply)
    fail = staticmethod(formation.fail)
    give_back = staticmethod(formation.give_back)

    def claim(
        self, session: Session, agent_id: str | None, by: datetime, lease: timedelta
    ) -> Awaitable[ConversationState | None]:
        return FormationRepository(session).claim_due(agent_id, by, lease)

    async def let_go(
        self, session: Session, held: ConversationState, error: BaseException, settings: Settings, now: datetime
    ) -> None:
        await ConversationRepository(session).release(held)

    def may_be_more(self, held: ConversationState) -> bool:
        return True

    def extend(self, session: Session, held: ConversationState, lease: timedelta) -> Awaitable[bool]:
        return ConversationRepository(session).extend(held, lease)

    def decide(self, loaded: Loaded, settings: Settings) -> Awaitable[Extracted]:
        return formation.decide(self.llm, loaded, settings)

    def keep(self, loaded: Loaded, decided: Extracted, settings: Settings) -> Step | None:
        if loaded.answered is not None:  # by whoever died before it was applied
            return None
        return partial(formation.keep, loaded=loaded, answered=decided, settings=settings)

    def postpone(self, session: Session, held: ConversationState, until: datetime) -> Awaitable[None]:
        return ConversationRepository(session).postpone(held.agent_id, held.conversation_id, until)

    def result(self, loaded: Loaded, decided: Extracted, applied: formation.Applied) -> tuple[FormResult, bool]:
        result = FormResult(
            conversation_id=loaded.conversation.conversation_id,
            run_ids=(loaded.run.run_id,),
            messages=len(loaded.window.messages),
            observations=applied.observations,
            duplicates=applied.known,
            refused=applied.refused,
            model=decided.usage.model,
        )
        return result, applied.more

    def total(self, held: ConversationState, results: Sequence[FormResult]) -> FormResult:
        refused: Counter[str] = Counter()
        for result in results:
            refused.update(result.refused)
        return FormResult(
            conversation_id=held.conversation_id,
            run_ids=tuple(run_id for result in results for run_id in result.run_ids),
            messages=sum(result.messages for result in results),
            observations=tuple(observation for result in results for observation in result.observations),
            duplicates=sum(result.duplicates for result in results),
            superseded=sum(result.superseded for result in results),
            refused=dict(refused),
            model=results[-1].model if results else None,
        )

    def key(self, held: ConversationState) -> ConversationKey:
        return ConversationKey(held.agent_id, held.conversation_id)

    def name(self, held: ConversationState) -> str:
        return f"conversation {held.conversation_id} of agent {held.agent_id}"

    def report(self, result: FormResult) -> RunDueResult:
        return RunDueResult(formed=(result,))
