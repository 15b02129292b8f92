"""The whole store: agents, counts, invariants, settings, restored backups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from memory_sql.config import RETRIEVAL_DAYS, VECTORS_OBSERVATIONS
from memory_sql.db import Session
from memory_sql.db.answering import current_position
from memory_sql.db.installation import placed_here
from memory_sql.db.principals import service
from memory_sql.db.queries.copied import copy_view
from memory_sql.db.queries.stats import large_scopes, read_stats
from memory_sql.db.repositories.agents import agent_key_of, ensure_agent, find_agent, list_agents
from memory_sql.db.repositories.shards import fence, has_moved
from memory_sql.db.repositories.vectors import VectorRepository
from memory_sql.db.verify import Measures, violations
from memory_sql.domain.arguments import flags, id_of, needed_text, optional_id, path_of, within
from memory_sql.domain.ids import Id, moved
from memory_sql.domain.results import AgentMove, AgentSummary, JournalStatus, Receipt, Stats, Violation
from memory_sql.errors import ConfigurationError, InputError, NotFoundError
from memory_sql.lifecycle import corrections, forgetting, journal, restoring
from memory_sql.llm.embeddings import name_of
from memory_sql.propagation.decoys import judged_languages
from memory_sql.resources.runtime import Face, asked_of
from memory_sql.retrieval import vectors
from memory_sql.retrieval.counters import words_fall_short


class Admin(Face):
    """The whole store: agents, counts, invariants, settings, restored backups."""

    async def stats(self, *, agent_id: Id) -> Stats:
        """Counts, without content. Raises `NotFoundError`."""
        agent, now, filled = id_of("agent_id", agent_id), self._now(), (0, 0)
        since, model = moved(now, -timedelta(days=RETRIEVAL_DAYS)), self._runtime.reads.semantics.find()
        async with self._database.statement(principal=service(agent)) as unit:
            stats = await read_stats(unit, agent, now, since.date(), self._settings)
            agent_key = await agent_key_of(unit, agent)
            if agent_key is not None and model is not None:
                filled = await VectorRepository(unit, name_of(model)).filled(agent_key)
            if stats is None:
                raise NotFoundError("agent", agent)
            short = words_fall_short(stats.retrieval)
            large = await large_scopes(unit, agent, VECTORS_OBSERVATIONS) if short else ()
        notice = vectors.notice(model, self._runtime.reads.semantics.off, *filled, stats.observations)
        advised = tuple(f"s{scope}" for scope in large)
        added = {"vectors": notice, "vectors_advised": advised, "judged_languages": judged_languages()}
        return stats.model_copy(update=added)

    async def verify(self, *, hashes: bool = False) -> Sequence[Violation]:
        """Violations of the invariants, which hold at any moment, also under load; empty if there are none.

        At most 1,000 of each kind. `hashes`: read and hash every text again, which takes several times as long; otherwise
        about 5,000 texts are checked, others each day. Runs in one read-only transaction.
        """
        flags(hashes=hashes)
        measures = Measures(
            now=self._now(),
            threshold=self._settings.consolidation_threshold,
            min_messages=self._settings.formation_min_messages,
        )
        async with self._database.transaction(principal=service(None), snapshot=True) as unit:
            return [violation async for violation in violations(unit, measures, hashes=hashes)]

    async def position(self) -> str:
        """Where the database is: everything committed by now, by any process, lies before this position.

        Another process that passes it as `after=` to `context`, `digest` or `search` sees all of that, behind a replica
        too (docs/context.md). It is one statement on the primary.
        """
        return f"{await current_position(self._database):x}"

    async def settings(self, *, agent_id: Id) -> dict[str, Any]:
        """The agent's own settings, by name; empty for an unknown agent."""
        agent = id_of("agent_id", agent_id)
        async with self._database.statement(principal=service(agent)) as unit:
            found = await find_agent(unit, agent)
        return {} if found is None else {name: found.settings[name] for name in sorted(found.settings)}

    async def restore_check(
        self, journal_file: Path | str, *, unsure: bool = False, incarnation: str | None = None
    ) -> list[Receipt]:
        """Repeats the forgettings of the journal that are missing in a restored database; run it before using the database.

        Skips a forgetting that may not have been committed, unless `unsure`, and those of another database
        (`journal_status` counts them). So are those of the database from which this one was restored, unless its
        `incarnation` is named: this one may be a copy beside it, of which nobody asked that. An agent that the backup
        doesn't have yet is created, so that its forgettings aren't repeated when it has something new. What the backup has of
        an agent that has moved to another shard since is set aside, which only the owner of the tables can. Needs a Memory
        that was opened with `restoring=True`.
        """
        flags(unsure=unsure)
        receipts, file = list[Receipt | None](), path_of("journal_file", journal_file)
        named = None if incarnation is None else needed_text("incarnation", incarnation)
        begun = journal.read(file)
        async with self._database.transaction(principal=service(None)) as unit:
            own = await placed_here(unit)
            left = await restoring.left_behind(unit, own, begun)
        for move in left:
            if move.incarnation in (own.incarnation, named):
                aside = partial(fence, agent_id=move.agent_id, shard=str(move.moved_to))
                await self._database.write(aside, principal=service(None))
        for entry, committed in begun.entries:
            is_ours = entry.moved_to is None and own.may_have_been(entry.database, entry.incarnation)
            if not is_ours or entry.incarnation not in (None, own.incarnation, named) or not (committed or unsure):
                continue
            asked = asked_of(entry.agent_id, None, "restored from a backup", self._settings, self._now())
            step = partial(_forgotten_again, asked=asked, entry=entry)
            receipts.append(await self._database.write(step, principal=asked.service))
        return [receipt for receipt in receipts if receipt is not None]

    async def journal_status(self, journal_file: Path | str | None = None) -> JournalStatus:
        """The forgettings of the journal (None: the one in the settings) that are missing in the database.

        Raises `ConfigurationError` if the journal can't be read, `InputError` if none is named.
        """
        file = self._settings.forget_journal if journal_file is None else path_of("journal_file", journal_file)
        if file is None:
            raise InputError("which journal? pass it, or set forget_journal")
        async with self._database.transaction(principal=service(None)) as unit:
            return await restoring.compare(unit, file)

    async def export(self, view: str, to: BinaryIO, *, agent_id: Id | None = None) -> int:
        """Writes an analyst view, for one agent or all, as UTF-8 CSV with a header, and returns the number of rows.

        The rows are of one moment and unordered; memory use is constant. An empty cell is null, `""` is an empty text.
        Arrays and JSON are written as psql shows them, times in UTC. A transaction stays open until the end. With shards each
        has a moment of its own, and `BusyError` is raised while an agent moves, also at the end, after the rows are
        written: then an agent may be missing or be there twice, so use nothing of it. Raises `InputError`.
        """
        agent = optional_id("agent_id", agent_id)
        async with self._database.transaction(principal=service(agent), snapshot=True) as unit:
            return await copy_view(unit, view, agent, to)

    async def agents(self, *, after: Id | None = None, limit: int = 100) -> Sequence[AgentSummary]:
        """The agents after `after`, in the order of their ids, with their own settings. `limit` is at most 1,000."""
        behind, most = optional_id("after", after), within("limit", limit, 1000)
        async with self._database.statement(principal=service(None)) as unit:
            return await list_agents(unit, behind, most)

    async def move(self, *, agent_id: Id, to: str) -> AgentMove:
        """Moves an agent, whole, to the shard `to`, while it is used. Needs the owner of both databases.

        Everything keeps its id. Each row is compared before the agent is switched over; in the last second or so, calls that
        change it wait. The rows in the old shard are deleted 20 seconds after that. What is killed, or fails, is ended by
        the next call: the agent is whole in exactly one of the two at any moment. Raises `NotFoundError`, `BusyError`
        while somebody else moves it, `LockTimeoutError` if a transaction keeps hold of it, `InputError` for an unknown shard.
        """
        id_of("agent_id", agent_id), needed_text("to", to)
        raise ConfigurationError("this memory has no shards")


async def _forgotten_again(unit: Session, asked: corrections.Asked, entry: journal.Entry) -> Receipt | None:
    """None if the database knows of it, or the agent is in another shard now, which does.

    An agent that isn't there is made, so that the database knows from now on.
    """
    if await has_moved(unit, entry.agent_id):
        return None
    agent_key = (await ensure_agent(unit, entry.agent_id, asked.now)).key
    return await forgetting.again(unit, asked, agent_key, entry)
