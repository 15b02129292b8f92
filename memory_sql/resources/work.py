"""Background work: what is due, what was given up, what waits for a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial

from memory_sql.db import Joinable, Session
from memory_sql.db.principals import service
from memory_sql.db.queries.backlog import read_backlog, read_late, read_waiting
from memory_sql.db.queries.costs import by_day
from memory_sql.db.queries.requests import next_request
from memory_sql.db.queries.reviews import Reviews, parse_review_id
from memory_sql.db.repositories.actions import ActionRepository
from memory_sql.db.repositories.agents import Agent, agent_key_of, find_agent, next_by_budget
from memory_sql.db.repositories.corrections import Cause
from memory_sql.db.repositories.retrievals import end_counts
from memory_sql.db.repositories.runs import RunRepository
from memory_sql.db.repositories.sweeps import BEGINNING
from memory_sql.db.repositories.vectors import bring_standings_along
from memory_sql.domain.arguments import (
    MOST_STORED,
    flags,
    id_of,
    moment_of,
    optional_callable,
    optional_flags,
    optional_id,
    reason_of,
    within,
    word_of,
)
from memory_sql.domain.guidelines import OUTCOMES, ActionOutcome, LearnedGuidelines
from memory_sql.domain.ids import Id, moved, parse_scope_id
from memory_sql.domain.limits import MOST_DAYS
from memory_sql.domain.rechecks import RecheckResult
from memory_sql.domain.results import (
    Backlog,
    DailyCost,
    DeadRun,
    EmbedResult,
    FailedRun,
    Late,
    LifecycleWeek,
    MaintainResult,
    Progress,
    Review,
    Trimmed,
    Waiting,
)
from memory_sql.episodes import sealing
from memory_sql.errors import InputError, NotFoundError
from memory_sql.jobs import DUE_KINDS, DueKind, DueWork
from memory_sql.lifecycle import classify, eviction, forecast, requests, restoring, retention
from memory_sql.resources.deciding import decided
from memory_sql.resources.learning import Learning
from memory_sql.resources.runtime import Face, asked_of
from memory_sql.resources.sweeping import CHANGED_AT_ONCE, Places, Sweeps

COUNTS_AT_ONCE = 10_000  # of one transaction


class Work(Face):
    """Background work: what is due, what was given up, what waits for a person."""

    async def backlog(self, *, agent_id: Id | None = None) -> Backlog:
        """How much work is due, in progress, waiting for a retry or given up; of one agent or all."""
        agent, now = optional_id("agent_id", agent_id), self._now()
        async with self._database.statement(principal=service(agent)) as unit:
            waiting = await read_backlog(unit, agent, now, self._settings)
        if agent is None:
            oldest = waiting.oldest_due_at or now
            self._runtime.telemetry.backlog(waiting, max(0.0, (now - oldest).total_seconds()))
        return waiting.model_copy(update={"has_model": self._runtime.has_llm})

    async def dead(self, *, agent_id: Id | None = None, limit: int = 100) -> Sequence[DeadRun]:
        """The work that was given up, oldest first. Each is tried again after a day at least, or by `retry`."""
        agent = optional_id("agent_id", agent_id)
        async with self._database.statement(principal=service(agent)) as unit:
            return await RunRepository(unit).dead(agent, within("limit", limit, 1000))

    async def failures(self, *, agent_id: Id | None = None, limit: int = 100) -> Sequence[FailedRun]:
        """The runs that failed, newest first, whether or not a later run succeeded; of one agent or all."""
        agent = optional_id("agent_id", agent_id)
        async with self._database.statement(principal=service(agent)) as unit:
            return await RunRepository(unit).failed(agent, within("limit", limit, 1000))

    async def costs(self, *, agent_id: Id | None = None, days: int = 30) -> Sequence[DailyCost]:
        """What models have done and cost on each of the last days (UTC), newest first; of one agent or all.

        `days`: 1 to 3,660, with today. A day on which no run began is left out.
        """
        agent, back = optional_id("agent_id", agent_id), within("days", days, MOST_DAYS)
        since = moved(self._now(), -timedelta(days=back - 1)).astimezone(UTC).date()
        async with self._database.statement(principal=service(agent)) as unit:
            return await by_day(unit, agent, since)

    async def waiting(self, *, agent_id: Id | None = None, limit: int = 100) -> Sequence[Waiting]:
        """The waiting work by agent, starting with the agent whose work has been due longest; of one agent or all."""
        agent = optional_id("agent_id", agent_id)
        async with self._database.statement(principal=service(agent)) as unit:
            return await read_waiting(unit, agent, within("limit", limit, 1000))

    async def late(self, *, agent_id: Id | None = None, hours: int = 24, limit: int = 100) -> Sequence[Late]:
        """The work that has waited for more than so many hours, and why, oldest first; of one agent or all."""
        agent = optional_id("agent_id", agent_id)
        before = moved(self._now(), -timedelta(hours=within("hours", hours, 24 * 366, least=0)))
        async with self._database.statement(principal=service(agent)) as unit:
            return await read_late(unit, agent, before, within("limit", limit, 1000))

    async def retry(self, *, agent_id: Id, run_id: int) -> None:
        """Makes work that was given up due again. Raises `NotFoundError`."""
        await self._jobs.retry(id_of("agent_id", agent_id), within("run_id", run_id, MOST_STORED, least=0))

    async def discard(self, *, agent_id: Id, run_id: int) -> None:
        """Drops work that was given up: its messages are skipped, its observations stay set aside.

        Nothing is deleted. Raises `NotFoundError`.
        """
        await self._jobs.discard(id_of("agent_id", agent_id), within("run_id", run_id, MOST_STORED, least=0))

    async def reviews(self, *, agent_id: Id, limit: int = 100, session: Joinable | None = None) -> Sequence[Review]:
        """What waits for a person, oldest first: held claims, contradictions beyond a version's bound, refused texts,
        what people have asked memory to forget or correct (`spoken_requests`), and what a group was told because two of its
        members had spoken there, who turned out to be one (`people.merge`).

        Until a decision, a held claim is shared with nobody else, both sides of a contradiction stay active, and the old
        text and the pending observations are shown. A claim that can't be shared any more (it was superseded, quarantined,
        disputed or marked private since, its user has left the group, sharing was switched off) doesn't wait.
        """
        agent, most = id_of("agent_id", agent_id), within("limit", limit, 1000)
        async with self._database.statement(session, service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            return [] if agent_key is None else await Reviews(unit, agent_key).waiting(most, self._settings)

    async def decide(
        self,
        review_id: str,
        *,
        agent_id: Id,
        accept: bool,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> None:
        """Accepts or refuses a review; `review_id` as `reviews` shows it.

        If it is accepted, a claim is judged again without the reason for which it was held, the older observation of a
        contradiction is superseded, a text becomes the scope's text, and what a person has asked to forget is forgotten as by
        `forget`, or superseded by what they have said instead. `scopes.undo` of the version takes back the second and third.
        If it is refused, a claim is never shared with that scope, what only one person heard is archived in the group, what a
        person has asked to forget is unquarantined (`InputError` where an active observation says the same by now), and
        nothing else changes. Raises
        `InvalidIdError`, `NotFoundError` (also if the subject of the review has changed), `BusyError`, `StaleError` (also if
        a claim is accepted that can't be shared any more: it says why).
        """
        flags(accept=accept)
        agent, key = id_of("agent_id", agent_id), parse_review_id(review_id)
        entry, joined = Cause(optional_id("actor", actor), reason_of(reason), self._now()), session is not None

        async def decide(unit: Session) -> None:
            agent_key = await agent_key_of(unit, agent)
            if agent_key is None:
                raise NotFoundError("agent", agent)
            if not await decided(unit, agent, agent_key, key, self._settings, entry, accept=accept, joined=joined):
                raise NotFoundError("review", review_id)

        await self._database.write(decide, session, service(agent))

    async def maintain(
        self,
        *,
        agent_id: Id | None = None,
        limit: int = 100_000,
        dry_run: bool = False,
        at: datetime | None = None,
    ) -> MaintainResult:
        """Deletes the texts of messages past their retention (`message_retention_days`), of one agent or all.

        Then forgets what people have asked to forget and nobody has taken back for `spoken_erase_days`.

        At most `limit`, in transactions of `maintenance_batch`. Unformed messages and messages under a legal hold are
        kept. The row of each message stays, so that it is recognised if it is sent again, and for the evidence. Of the
        observations, guesses that nobody has confirmed expire (`speculative_days`), plans whose day is over are resolved and
        evicted later (`commitment_days`), also at most `limit`. It then evicts, as `trim` does, at most `limit` observations
        of agents whose `retention` is budget, deletes at most `limit` retrieval counts (`count_days`), and
        classifies by the rules at most `limit` observations that these haven't seen. It writes down what the journal of
        forgetting lacks. Where they are on, it stores the stages of observations (`lifecycle`), archives what is old and
        unused (`archival`), makes cold what is old and worth little (`tiering`), makes links less sure that haven't been
        seen for long (`link_decay`), and ends episodes in which nothing more is said (`episodes`). Concurrent calls share the
        work. A `Worker` does this automatically.

        `dry_run` changes nothing and only reports what would expire and, whether or not they are on, what the sweeps of
        stages, archival and tiers would change, with examples; `at`, only with it: as if it were then, and nothing were used
        until then.
        """
        flags(dry_run=dry_run)
        agent, most = optional_id("agent_id", agent_id), within("limit", limit, 10**9)
        then = moment_of("at", at)
        if dry_run:
            return await self._sweeps.preview(agent, most, then or self._now())
        if then is not None:
            raise InputError("at= goes with dry_run=True")
        await self._runtime.compare_clocks(self._database)
        sweep = retention.Sweep()
        while sweep.after is not None and sweep.messages < most:
            left, now = most - sweep.messages, self._now()
            step = partial(
                retention.end_retention, agent_id=agent, sweep=sweep, most=left, settings=self._settings, now=now
            )
            sweep = await self._database.write(step, principal=service(agent))
        if (path := self._settings.forget_journal) is not None:
            await self._database.write(partial(restoring.catch_up, path=path, now=self._now()), principal=service(None))
        requested, expired = await self._erase_requested(agent, most), await self._sweeps.expire(agent, most)
        evicted, counts = await self._trim_all(agent, most), await self._end_counts(agent, most)
        classified = await self._classify(agent, most)
        sealed = await self._seal_episodes(agent, most) if self._settings.episodes else 0
        complete = (
            sweep.after is None and expired.is_whole and max(evicted, counts, requested, classified, sealed) < most
        )
        done = MaintainResult(
            messages=sweep.messages,
            evicted=evicted,
            counts=counts,
            requested=requested,
            expired=expired.changed,
            classified=classified,
            episodes=sealed,
            complete=complete,
        )
        if self._settings.guidelines:
            changed, failed = await Learning(self._runtime).learn_all(agent)
            done = done.model_copy(update={"guidelines": changed, "unlearned": failed})
        return await self._sweeps.sweep(done, agent, most)

    async def lifecycle(self, *, agent_id: Id, days: int = 365) -> Sequence[LifecycleWeek]:
        """How many observations would be in each stage, now and after each week of so many days (0 to 3,660).

        With today's settings, if maintenance ran each week and nothing were said or used meanwhile. A stage depends on the
        one before, so each week goes on from the last, and the first from the stages of today. Stages are told as if
        `lifecycle` were on; what archival would take has the stage archived only if that is on. Changes nothing. Raises
        `NotFoundError`.
        """
        agent, ahead = id_of("agent_id", agent_id), within("days", days, MOST_DAYS, least=0)
        async with self._database.statement(principal=service(agent)) as unit:
            found = await forecast.weeks(unit, agent, ahead, self._settings, self._now())
        if not found:
            raise NotFoundError("agent", agent)
        return found

    @cached_property
    def _places(self) -> Places:
        return Places()

    @property
    def _sweeps(self) -> Sweeps:
        return Sweeps(self._database, self._settings, self._now, self._places)

    async def _classify(self, agent_id: str | None, most: int) -> int:
        """Classifies anew, batch by batch, and returns how many observations."""
        done, after = 0, BEGINNING
        while done < most:
            at_once = min(CHANGED_AT_ONCE, self._settings.maintenance_batch, most - done)
            async with self._database.statement(principal=service(agent_id)) as unit:
                outdated = await classify.outdated(unit, agent_id, after, at_once, self._settings)
            if outdated:
                step = partial(classify.store, outdated=outdated, found=classify.classified(outdated))
                done += await self._database.write(step, principal=service(agent_id))
                after = outdated[-1][:3]
            if len(outdated) < at_once:
                break
        return done

    async def _seal_episodes(self, agent_id: str | None, most: int) -> int:
        """Ends what nobody goes on with, batch by batch, and returns how many."""
        done, sealed = 0, CHANGED_AT_ONCE
        while done < most and sealed == CHANGED_AT_ONCE:
            at_once, now = min(CHANGED_AT_ONCE, most - done), self._now()
            step = partial(sealing.seal, agent_id=agent_id, most=at_once, settings=self._settings, now=now)
            sealed = await self._database.write(step, principal=service(agent_id))
            done += sealed
        return done

    async def _erase_requested(self, agent_id: str | None, most: int) -> int:
        """Forgets, a request a transaction, what was asked for `spoken_erase_days` ago, and returns how many observations."""
        if not (days := self._settings.spoken_erase_days):
            return 0
        erased, before = 0, moved(self._now(), -timedelta(days=days))
        while erased < most:
            async with self._database.transaction(principal=service(agent_id)) as unit:
                due = await next_request(unit, agent_id, before)
            if due is None:
                break
            agent, agent_key, key = due
            asked = asked_of(agent, None, None, self._settings, self._now())
            step = partial(requests.erase, asked=asked, agent_key=agent_key, key=key, joined=False)
            done: int | None = await self._database.write(step, principal=service(agent))
            erased += done or 0
        return erased

    async def _end_counts(self, agent_id: str | None, most: int) -> int:
        """Deletes the retrieval counts older than `count_days` and returns how many."""
        before = moved(self._now(), -timedelta(days=self._settings.count_days)).date()
        ended, gone = 0, COUNTS_AT_ONCE
        while ended < most and gone == COUNTS_AT_ONCE:
            step = partial(end_counts, agent_id=agent_id, before=before, limit=min(COUNTS_AT_ONCE, most - ended))
            gone = await self._database.write(step, principal=service(agent_id))
            ended += gone
        return ended

    async def _trim_all(self, agent_id: str | None, most: int) -> int:
        """Trims that agent or all whose retention is by budget, and returns how many observations were evicted."""
        evicted, after = 0, 0
        while evicted < most:
            async with self._database.transaction(principal=service(agent_id)) as unit:
                found = await next_by_budget(unit, agent_id, self._settings.retention, after)
            if found is None:
                break
            agent, known = found
            evicted += (await self._trim(agent, known, most - evicted)).observations
            after = known.key
        return evicted

    async def trim(self, *, agent_id: Id, dry_run: bool = False) -> Trimmed:
        """Evicts what exceeds the agent's budgets (`retention` = budget); `dry_run` only reports it.

        Observations with one of the digest's pinned keys or tags, disputed ones and those under a legal hold stay; scopes
        that exceed their budgets because of them are listed in `over`. Each scope is trimmed separately, in bounded
        transactions. Raises `NotFoundError`.
        """
        flags(dry_run=dry_run)
        agent = id_of("agent_id", agent_id)
        async with self._database.transaction(principal=service(agent)) as unit:
            known = await find_agent(unit, agent)
        if known is None:
            raise NotFoundError("agent", agent)
        return await self._trim(agent, known, dry_run=dry_run)

    async def _trim(self, agent_id: str, known: Agent, most: int | None = None, *, dry_run: bool = False) -> Trimmed:
        """Evicts at most `most` observations, scope by scope."""
        settings, trimmed = self._settings.of_agent(known.settings), Trimmed(dry_run=dry_run)
        async with self._database.transaction(principal=service(agent_id)) as unit:
            over = await eviction.scopes_over(unit, known.key, settings)
        for scope_id in over:
            if most is not None and trimmed.observations >= most:
                break
            async with self._database.transaction(principal=service(agent_id)) as unit:
                plan = await eviction.planned(unit, known.key, scope_id, settings)
            if dry_run:
                trimmed = eviction.added(trimmed, plan.told(plan.going, dry_run=True))
                continue
            going = plan.going if most is None else plan.going[: most - trimmed.observations]
            trimmed = eviction.added(trimmed, plan.told(()))
            for start in range(0, len(going), settings.trim_batch):
                batch, now = going[start : start + settings.trim_batch], self._now()
                step = partial(eviction.trim, agent_key=known.key, plan=plan, batch=batch, settings=settings, now=now)
                trimmed = eviction.added(trimmed, await self._database.write(step, principal=service(agent_id)))
        return trimmed

    async def embed(
        self,
        *,
        agent_id: Id | None = None,
        limit: int = 10_000,
        whole: bool = True,
        progress: Callable[[Progress], None] | None = None,
    ) -> EmbedResult:
        """Makes the missing vectors, of one agent or all, in batches, oldest first.

        Without `whole`, only for observations newer than the newest vector of their scope, which are found quickly. A
        `Worker` does that every few seconds, and the whole now and then. The whole also gives vectors the status of
        observations that a transaction in REPEATABLE READ has changed without seeing them. Makes none if no model is set.
        Concurrent calls do no harm, but repeat work. `progress` is called after each batch; counting what is missing for it
        reads as much as finding that. Raises `LanguageModelError` if the model fails, or doesn't answer in the time of a call
        with its retries (`llm_timeout_seconds`, `llm_max_retries`), `ConfigurationError` if it can't be loaded.
        """
        flags(whole=whole)
        optional_callable("progress", progress)
        agent, most = optional_id("agent_id", agent_id), within("limit", limit, 10**9)
        if whole:
            await self._database.write(partial(bring_standings_along, agent_id=agent), principal=service(agent))
        return await self._jobs.embed_due(agent, most, whole=whole, progress=progress)

    async def claim(self, kind: DueKind, *, agent_id: Id | None = None, by: datetime | None = None) -> DueWork | None:
        """Claims the work that has been due longest, now or at `by`; call the result once, at once. None: nothing is due.

        No two callers, on any machine, get the same work. A failure is in the result, and the work stays due for later.
        Cancelled work is due again at once; work that a crash interrupts is due again when its lease expires.
        """
        if kind not in DUE_KINDS:
            raise InputError(f"kind must be one of {', '.join(DUE_KINDS)}")
        agent, at = optional_id("agent_id", agent_id), moment_of("by", by) or self._now()
        return await self._jobs.claim_due(kind, agent, at)

    async def learn(self, *, agent_id: Id) -> LearnedGuidelines:
        """Learns guidelines by rule from what became of the agent's last 500 actions (`note_action`), without a model.

        They are at most five lines, in the scope `learned` beside the agent's guidelines; each change is a version that
        supersedes the one before. Of an action with fewer than five events nothing is said. Maintenance does this for all
        agents if the setting `guidelines` is on.
        """
        return await Learning(self._runtime).learn(id_of("agent_id", agent_id))

    async def note_action(
        self, action: str, outcome: ActionOutcome, *, agent_id: Id, actor: Id = "agent", good: bool | None = None
    ) -> None:
        """Adds an event: what became of an action of the agent, a word such as `store_note`; applied, deferred, denied or
        failed. `good`: whether it was well judged; None: not known. The tools do this if the setting `guidelines` is on.

        Raises `InputError`; `NotFoundError` for an unknown agent.
        """
        optional_flags(good=good)
        agent, by, word = id_of("agent_id", agent_id), id_of("actor", actor), word_of("action", action)
        if word is None or outcome not in OUTCOMES:
            raise InputError(f"outcome must be one of {', '.join(OUTCOMES)}")
        detail = {"action": word, "outcome": outcome} | ({} if good is None else {"good": good})

        async def note(unit: Session) -> None:
            agent_key = await agent_key_of(unit, agent)
            if agent_key is None:
                raise NotFoundError("agent", agent)
            await ActionRepository(unit).note(agent_key, by, detail, self._now())

        await self._database.write(note, principal=service(agent))

    async def recheck(
        self, *, agent_id: Id | None = None, scope_id: str | None = None, limit: int = 100
    ) -> RecheckResult:
        """Compares what texts have absorbed with what lies near it, and supersedes what no longer holds.

        Of that scope of the agent, all that no recheck has compared; without `scope_id`, of one agent or all, at most
        `limit` scopes that are due (setting `recheck`), one model call each. A recheck changes no text: what it supersedes
        is recorded as a version, which `scopes.undo` takes back. A scope that fails is in `failed` if none is named, and
        stays due. Raises `BusyError`, `NotFoundError`, `LanguageModelError`, `StaleError` if one is.
        """
        agent, most = optional_id("agent_id", agent_id), within("limit", limit, 100_000)
        if scope_id is None:
            done = await self._jobs.recheck_due(agent, most)
            return RecheckResult(rechecked=done.rechecked, failed=done.failed)
        if agent is None:
            raise InputError("scope_id= goes with agent_id=")
        return RecheckResult(rechecked=(await self._jobs.recheck(agent, parse_scope_id(scope_id)),))

    @property
    def refusal(self) -> str | None:
        """The provider's message, while it refuses the model's key or account to this process; else None.

        Meanwhile `claim` returns None, except one piece of work after each pause.
        """
        return self._jobs.breaker.refusal

    async def catch_up(self) -> None:
        """Makes due what is due by this Memory's settings but wasn't by earlier ones. Workers call it when they start."""
        await self._jobs.catch_up()
