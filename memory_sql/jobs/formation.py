"""Formation, as a job: of a conversation's messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import Locks, Rows, under_locks
from memory_sql.db.repositories.conversations import ConversationRepository, ConversationState
from memory_sql.db.repositories.formations import FormationRepository
from memory_sql.db.repositories.observations import Draft
from memory_sql.domain.ids import parse_observation_id
from memory_sql.domain.results import FormResult, RunDueResult
from memory_sql.errors import LanguageModelError
from memory_sql.formation import formation, requests, together
from memory_sql.formation.dialogue import Extracted
from memory_sql.formation.formation import ConversationKey
from memory_sql.formation.sieve import drafts_of
from memory_sql.formation.window import Loaded
from memory_sql.jobs.job import Read, Step
from memory_sql.lifecycle import journal, spoken
from memory_sql.llm import LanguageModel
from memory_sql.retrieval.semantics import QueryVector, words_alone

MOST_BESIDE = 11  # conversations that are formed along with one


@dataclass(frozen=True)
class Formation:
    """`vector`: of what is looked for in words. `metadata`: of each observation that it stores.

    `loaded`: conversations that are asked about together (`formation.together`); the first of them makes their call.
    """

    llm: LanguageModel
    vector: Callable[[str], Awaitable[QueryVector]] = words_alone
    loaded: tuple[Loaded, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    _answers: dict[int, Extracted | LanguageModelError] = field(default_factory=dict)

    due_reason = "due"
    applies_alone = True
    take = staticmethod(formation.take)
    refuse = staticmethod(formation.refuse_untaken)
    load_claimed = staticmethod(formation.load_claimed)
    fail = staticmethod(formation.fail)
    give_back = staticmethod(formation.give_back)

    def claim(
        self, session: Session, agent_id: str | None, by: datetime, lease: timedelta
    ) -> Awaitable[ConversationState | None]:
        return FormationRepository(session).claim_due(agent_id, by, lease)

    async def beside(
        self, session: Session, held: ConversationState, settings: Settings, now: datetime, lease: timedelta
    ) -> Sequence[ConversationState]:
        """Other short ones of its user that are silent: those of one person alone, which remember nothing of themselves."""
        if held.due_reason != "rest" or len(held.participants) != 1 or settings.conversation_scope != "off":
            return ()
        quiet_since = now - timedelta(minutes=settings.formation_cold_minutes)
        return await FormationRepository(session).claim_resting(held, quiet_since, lease, MOST_BESIDE)

    def together(self, loaded: Sequence[Loaded]) -> Formation:
        return Formation(self.llm, self.vector, tuple(loaded))

    async def let_go(
        self, session: Session, held: ConversationState, error: BaseException, settings: Settings, now: datetime
    ) -> None:
        await ConversationRepository(session).release(held)

    def may_be_more(self, held: ConversationState) -> bool:
        return True

    def extend(self, session: Session, held: ConversationState, lease: timedelta) -> Awaitable[bool]:
        return ConversationRepository(session).extend(held, lease)

    async def decide(self, loaded: Loaded, settings: Settings) -> Extracted:
        run_id = loaded.run.run_id
        if all(one.run.run_id != run_id for one in self.loaded):
            return await formation.decide(self.llm, loaded, settings)
        if run_id not in self._answers:
            calls = together.calls(self.loaded, settings)
            await self._ask(next(call for call in calls if any(one is loaded for one in call)), settings)
        answer = self._answers[run_id]
        if isinstance(answer, LanguageModelError):
            answer.usage = None  # the first has paid
            raise answer
        return answer

    async def _ask(self, call: Sequence[Loaded], settings: Settings) -> None:
        runs = [one.run.run_id for one in call]
        try:
            answers = await together.decide(self.llm, call, settings)
        except LanguageModelError as error:
            self._answers.update(dict.fromkeys(runs, error))
            raise
        self._answers.update(zip(runs, answers, strict=True))

    def keep(self, loaded: Loaded, decided: Extracted, settings: Settings) -> Step | None:
        if loaded.answered is not None and not decided.meant:  # by whoever died before it was applied
            return None
        return partial(formation.keep, loaded=loaded, answered=decided, settings=settings)

    async def settle(self, loaded: Loaded, decided: Extracted, settings: Settings, read: Read) -> Extracted:
        """With what people mean who ask something of the memory itself: one more call, where anything may be meant."""
        asked, _ = requests.asked_in(decided.extraction, loaded, settings)
        if not asked:
            return decided
        vectors = [await self.vector(one.what) for one in asked]
        found = await read(partial(requests.candidates, loaded=loaded, asked=asked, vectors=vectors))
        drafts, _ = drafts_of(decided.extraction, loaded, settings, decided.others.evidence)
        task = requests.MeantTask(requests.choices(asked, found, drafts, loaded.conversation.conversation_id))
        answer, usage = await requests.ask_which(self.llm, settings.fast_model, task)
        return replace(
            decided,
            meant=tuple(task.meant(answer, settings)),
            usage=decided.usage + usage if usage.calls else decided.usage,
        )

    def applies_more(self, decided: Extracted) -> bool:
        return bool(decided.meant)

    async def apply(
        self, session: Session, loaded: Loaded, decided: Extracted, settings: Settings, now: datetime
    ) -> formation.Applied:
        """What is stored and what is asked of the memory itself, in one transaction, under the locks of both."""
        if not decided.meant:
            return await formation.apply(session, loaded, decided, settings, now, self.metadata)
        where, ended = loaded.conversation, list[journal.Entry]()

        async def act(locks: Locks) -> formation.Applied:
            applied = await formation.apply(session, loaded, decided, settings, now, self.metadata)
            stored = {parse_observation_id(one)[0] for one in applied.ids.values()}  # their scopes are locked, or new
            ours = replace(locks, rows=locks.rows | Rows(frozenset(stored)))
            wishes = _wishes(loaded, decided, applied, settings)
            done = await spoken.carry_out(
                session, ours, where.agent_id, where.conversation_id, loaded.run.run_id, wishes, settings, now
            )
            ended[:] = [] if done.ended is None else [done.ended]
            seen = tuple(one for one in applied.observations if one.id not in done.hidden)
            return replace(applied, observations=seen, hidden=tuple(sorted(done.hidden)), superseded=done.superseded)

        known = Rows(
            frozenset(loaded.shown) | {scope_id for one in decided.meant for scope_id in one.scopes},
            frozenset({where.conversation_id, *decided.others.epochs}),
        )
        applied = await under_locks(session, where.agent_key, act, known=known, shared=True)
        for entry in ended:
            await journal.keep(settings.forget_journal, session, entry, joined=False)
        return applied

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
            superseded=applied.superseded,
            hidden=applied.hidden,
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
            hidden=tuple(one for result in results for one in result.hidden),
            refused=dict(refused),
            model=results[-1].model if results else None,
        )

    def key(self, held: ConversationState) -> ConversationKey:
        return ConversationKey(held.agent_id, held.conversation_id)

    def name(self, held: ConversationState) -> str:
        return f"conversation {held.conversation_id} of agent {held.agent_id}"

    def report(self, result: FormResult) -> RunDueResult:
        return RunDueResult(formed=(result,))


def _wishes(loaded: Loaded, decided: Extracted, applied: formation.Applied, settings: Settings) -> list[spoken.Wish]:
    own = {one.owner: one.state.scope_id for one in loaded.targets if one.is_main and one.state is not None}

    more = _saying_more(loaded, decided, applied, settings)

    def scope_of(one: requests.Meant) -> int | None:
        shown_in = sorted(parse_observation_id(known)[0] for known in (*one.observations, *ids(one.places)))
        return own.get(loaded.window.owners[one.asked.user_id], next(iter(shown_in), None))

    def ids(places: Iterable[int]) -> list[str]:
        return [applied.ids[place] for place in places if place in applied.ids]

    return [
        spoken.Wish(
            kind=one.asked.kind,
            what=one.asked.what,
            user_id=one.asked.user_id,
            numbers=tuple(sorted(one.asked.numbers)),
            observations=tuple(dict.fromkeys([*one.observations, *ids(one.places)])),
            news=tuple(ids(one.news)),
            unsure=one.unsure,
            scope_id=scope_of(one),
            words=one.asked.words,
            more=more & one.asked.numbers,
            withheld=tuple(kept for kept, by in applied.withheld if by[0] == one.asked),
        )
        for one in decided.meant
    ]


def _saying_more(loaded: Loaded, decided: Extracted, applied: formation.Applied, settings: Settings) -> frozenset[int]:
    """The messages that ask, and say something that is neither asked nor stored: it would end with their texts."""
    drafts, _ = drafts_of(decided.extraction, loaded, settings, decided.others.evidence)
    told = told_of(loaded, [drafts[place] for place in applied.ids])
    for meant in decided.meant:
        for number in meant.asked.numbers:
            told[number] += (meant.asked.what, *meant.texts)
    return requests.saying_more([meant.asked for meant in decided.meant], told)


def told_of(loaded: Loaded, drafts: Iterable[Draft]) -> defaultdict[int, list[str]]:
    """What is stored of each message of the conversation."""
    told = defaultdict[int, list[str]](list)
    for draft in drafts:
        for one in draft.evidence:
            if one.conversation_id == loaded.conversation.conversation_id and one.number is not None:
                told[one.number].append(draft.content)
    return told
