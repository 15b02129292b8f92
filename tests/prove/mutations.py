"""Removes the safeguards one at a time in a copy of the project: the tests must notice each removal.

    python -m tests.prove.mutations [PART OF A NAME …]

The text that a mutation replaces is searched for in the package and the migrations, or in the files that the mutation names,
so code may be moved without changing this table. It is an error if the text isn't found.

The test that noticed a mutation the last time is tried first, and the others if it passes. Each run writes `noticed.json`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
KNOWN = Path(__file__).with_name("noticed.json")
EVERYWHERE = ("memory_sql/**/*.py", "memory_sql/**/*.sql", "migrations/versions/**/*.sql")
RULES = ("tests/integration/test_rules.py",)
WALLS = ("tests/integration/test_walls.py",)
CORRECTIONS = ("tests/integration/test_corrections.py",)
LINES = ("tests/integration/test_lines.py",)
ADD = ("tests/integration/test_add.py",)
TESTS = tuple(f"tests/integration/test_{name}.py" for name in ("add", "formation", "consolidation", "recovery"))
DUE = tuple(f"tests/integration/test_{name}.py" for name in ("add", "triggers", "consolidation", "recovery"))
WITHDRAWING = ("tests/integration/test_withdrawing.py",)
FORGETTING = ("tests/integration/test_forgetting.py",)
DIALOGUE = ("tests/integration/test_dialogue.py",)
MESSAGES = ("tests/integration/test_messages.py",)
PROPAGATION = ("tests/integration/test_propagation.py",)
LOCKS = ("tests/integration/test_locks.py",)
HOST = ("tests/integration/test_host_transaction.py",)
REPLACING = ("tests/integration/test_consolidation_replacing.py",)
LIFECYCLE = ("tests/integration/test_lifecycle.py",)
TIERS = ("tests/integration/test_tiers.py",)
RECHECK = ("tests/integration/test_recheck.py",)
LINKS = ("tests/integration/test_links.py",)
EPISODES = ("tests/integration/test_episodes.py",)
EPISODE_RULES = ("tests/integration/test_episode_rules.py",)
GUIDELINES = ("tests/unit/test_guidelines.py", "tests/integration/test_guidelines.py")
FORECAST = ("tests/integration/test_forecast.py",)
ALONE = ("tests/integration/test_alone.py",)
LEFT_BEHIND = ("tests/integration/test_left_behind.py",)
HEARD_BY_ONE = ("tests/integration/test_heard_by_one.py",)
EDITS = ("tests/integration/test_replacing.py",)
MOVING = ("tests/integration/test_moving.py",)
TOLD = ("tests/unit/test_told_otherwise.py", "tests/unit/test_told_in_other_words.py")
OTHERS = ("tests/integration/test_overtaking_others.py",)
SHORT = ("tests/integration/test_short_conversations.py",)
FORGET = (
    *("memory_sql/db/sql/forgetting/*.sql", "memory_sql/db/sql/sharing/*.sql"),
    *("migrations/versions/*/forgetting/*.sql", "migrations/versions/*/sharing/*.sql"),
)
SAVING = ("memory_sql/**/save_observations.sql", "migrations/versions/**/save_observations.sql")
NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+?::\w+)", re.MULTILINE)
IS_GONE = 4  # pytest's exit code for a test that isn't there


class Change(NamedTuple):
    before: str
    after: str
    where: tuple[str, ...] = EVERYWHERE


class Mutation(NamedTuple):
    name: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...] = RULES


NO_SAVEPOINT = Change(
    "async with taken_back_on_error(session):  # a savepoint, whose rollback gives the locks back too",
    "if True:",
)
UNIQUE_MESSAGE_ID = (
    "    CONSTRAINT messages_agent_key_message_id_conversation_id_key"
    " UNIQUE (agent_key, message_id, conversation_id),\n"
)
FEW_MESSAGES = "p_messages < waits_below"
UNIQUE_RANGE = "CREATE UNIQUE INDEX consolidations_from_seq_key"
SCOPE_LOCK = "which).order_by(ScopeRow.scope_id).with_for_update(key_share=True)"
SHARED = "under_locks(session, agent_key, act, shared=True)"
SHARED_FOUND = "under_found(session, partial(_lock_around, session, asked, selection), act, shared=True)"
DISPUTED = "AND coalesce(t.verification, 'unverified') <> 'disputed'"
EXCLUDED = "WHERE behind.person IN (SELECT memory.person(p_agent, x) FROM unnest(p_excluded) x)"
SHAREABLE_ACTIVE = """      AND memory.in_use(t.status)
      AND coalesce(t.verification, 'unverified') <> 'disputed'
"""


def without(piece: str, *where: str) -> Change:
    return Change(piece, "", where or EVERYWHERE)


def never_called(call: str, *where: str) -> Change:
    return Change(f"await {call}(", f"False and await {call}(", where or EVERYWHERE)


NO_FENCE_ON_SCOPES = without(", ScopeRow.fence == state.fence)")._replace(after=")")
NO_FENCE_ON_SESSIONS = without("        ConversationRow.fence == state.fence,\n")
HAS_ENDED = 'ended is None:\n            raise StaleError("run"'  # which tells a late worker too
ENDED_RUNS_SUCCEED = Change(HAS_ENDED, HAS_ENDED.replace("None", "None and False"))
ENDED_FORMATIONS_SUCCEED = Change("AND r.fence = v_read.run_fence\n          AND r.finished_at IS NULL\n", "")
ENDED_UNNOTICED = Change(" AND r.finished_at IS NULL;\n    IF NOT FOUND THEN", ";\n    IF false THEN")

MUTATIONS = (
    # Messages are stored once
    Mutation("no unique message id", (without(UNIQUE_MESSAGE_ID),), TESTS),
    Mutation(
        "no look for messages that are there",
        (Change("k.message_id = g.id", "k.message_id = g.id AND false"),),
        TESTS,
    ),
    Mutation(
        "the conversation's row is not locked",
        (without(" FOR NO KEY UPDATE", "memory_sql/**/add_messages.sql", "migrations/versions/**/add_messages.sql"),),
        TESTS,
    ),
    # Leases
    Mutation(
        "no fence on scopes", (NO_FENCE_ON_SCOPES, without(" AND s.fence = p_fence"), ENDED_RUNS_SUCCEED), TESTS
    ),
    Mutation("no fence on conversations", (
        NO_FENCE_ON_SESSIONS, without("      AND c.fence = v_read.fence\n"), ENDED_FORMATIONS_SUCCEED, ENDED_UNNOTICED,
    )),
    # Rule 1: each row is in one place
    Mutation(
        "1: what was passed over does not wait",
        (Change("t.seq <= p_done AND t.repend AND memory.in_use(t.status)", "t.seq <= p_done AND false"),),
    ),
    # Rule 2: a version ends at the last row that was read
    Mutation("2: a version ends at the newest row", (Change("done_seq = p_to,", "done_seq = s.last_seq,"),)),
    Mutation(
        "2: two versions may begin at the same row",
        (Change(UNIQUE_RANGE, UNIQUE_RANGE.replace("UNIQUE ", "")),),
    ),
    # Rule 3: what a version passed over is marked by its commit alone
    Mutation(
        "3: what was passed over is not marked",
        (
            Change("DO UPDATE SET repend = true;\n    UPDATE", "DO NOTHING;\n    UPDATE"),
            Change("o.seq, true, p_at FROM", "o.seq, false, p_at FROM"),
        ),
    ),
    Mutation("3: what was read is marked as well", (without("      AND o.seq NOT IN (SELECT unnest(p_inputs))\n"),)),
    # Rule 4: versions only rise
    Mutation("4: the version is not compared", (without(" AND s.version = p_version"),)),
    Mutation("4: undo brings back the number", (Change("version=ScopeRow.version + 1,", "version=first.c.base,"),)),
    Mutation(
        "4: a version does not know its base",
        (Change('"base": _given("version", _s.c.version),', '"base": literal(0),'),),
    ),
    # Rule 5: one way back
    Mutation(
        "5: what was taken from below the watermark does not wait again",
        (Change("or_(_t.seq > first.c.from_seq, _t.seq.in_(extras.correlate(first)))", "_t.seq > first.c.from_seq"),),
    ),
    Mutation(
        "5: marks above the watermark stay",
        (
            Change(
                "or_(_t.seq > first.c.from_seq, _t.seq.in_(extras.correlate(first)))",
                "_t.seq.in_(extras.correlate(first))",
            ),
        ),
    ),
    Mutation(
        "5: what gave way in an undone version does not count again",
        (never_called("StateRepository(self._session).reinstate"),),
        TESTS,
    ),
    Mutation(
        "5: scopes are not locked",
        (Change(SCOPE_LOCK, "which).order_by(ScopeRow.scope_id)"), without(".with_for_update(key_share=not keys_change)")),
        LOCKS,
    ),
    # Rule 6: what was taken out while a model worked doesn't come back
    Mutation("6: no epoch in the commit of a version", (without(" AND s.epoch = p_epoch"), ENDED_RUNS_SUCCEED)),
    Mutation(
        "6: no epoch of what the prompt showed",
        (Change("WHERE h.value::integer IS DISTINCT FROM (", "WHERE false AND h.value::integer IS DISTINCT FROM ("),),
    ),
    Mutation(
        "6: no epoch of the conversation",
        (without("      AND c.epoch = v_read.epoch\n"), ENDED_FORMATIONS_SUCCEED, ENDED_UNNOTICED),
    ),
    Mutation(
        "6: no cursor",
        (without("      AND c.formed_number = v_read.formed\n"), ENDED_FORMATIONS_SUCCEED, ENDED_UNNOTICED),
    ),
    Mutation(
        "6: a stored answer is not held against the epochs",
        (Change("and await _is_still_good(", "and True or await _is_still_good("),),
    ),
    Mutation("6: quarantine does not raise the epoch", (Change("epoch=ScopeRow.epoch + 1", "epoch=ScopeRow.epoch"),)),
    Mutation(
        "6: exclusion does not raise the epoch",
        (
            Change("epoch=ConversationRow.epoch + 1", "epoch=ConversationRow.epoch"),
            ENDED_RUNS_SUCCEED, ENDED_FORMATIONS_SUCCEED, ENDED_UNNOTICED,
        ),
    ),
    Mutation(
        "a formation begins whoever of those whom it names has gone",
        (Change("where(_still_there == func.cardinality(_silent))", "where(true())"),),
        ("tests/integration/test_subjects.py",),
    ),
    # Rule 7: what is forgotten goes with all that holds it, and doesn't come back
    Mutation(
        "7: forgetting does not raise the epoch of the scope",
        (Change("SET epoch = s.epoch + 1,", "SET epoch = s.epoch,", FORGET),),
        FORGETTING,
    ),
    Mutation(
        "7: forgetting does not raise the epoch of the conversation",
        (
            Change("SET epoch = t.epoch + 1,", "SET epoch = t.epoch,", FORGET),
            ENDED_RUNS_SUCCEED, ENDED_FORMATIONS_SUCCEED, ENDED_UNNOTICED,
        ),
        FORGETTING,
    ),
    Mutation(
        "7: a text on top of a tainted one stays",
        (Change("c.base = b.version\n", "c.base = b.version AND false\n", FORGET),),
        FORGETTING,
    ),
    Mutation(
        "7: an undone version that may hold it stays",
        (Change("AND NOT (c.live AND (\n", "AND c.live AND NOT (c.live AND (\n", FORGET),),
        FORGETTING,
    ),
    Mutation(
        "7: what a later version took taints the one that passed it over",
        (Change("AND k.seq = ANY (e.extra_seqs)\n", "AND false\n", FORGET),),
        FORGETTING,
    ),
    Mutation(
        "7: what others said is not looked for again under the locks",
        (Change("if self.rows | wanted != self.rows:", "if self.rows == Rows() != wanted:"),),
        LOCKS,
    ),
    Mutation(
        "7: more conversations are locked while scopes are",
        (NO_SAVEPOINT,),
        LOCKS,
    ),
    Mutation(
        "7: what gave way to it does not stand again",
        (never_called("StateRepository(session).stand_again"),),
        FORGETTING,
    ),
    Mutation(
        "7: one is forgotten alone though something else hangs on it",
        (Change("        v_goes.touches_others OR ", "        ", FORGET),),
        ALONE,
    ),
    Mutation(
        "7: one is forgotten alone though a text holds it",
        (Change("v_goes.scope_ids, v_goes.seqs) t WHERE t.live)", "v_goes.scope_ids, v_goes.seqs) t WHERE false)", FORGET),),
        ALONE,
    ),
    Mutation(
        "7: one's own confirmation keeps what is forgotten",
        (Change("                       NOT p_confirmable\n", "                       false\n", FORGET),),
        FORGETTING,
    ),
    Mutation(
        "7: what a hold keeps of it stays in use",
        (Change("p_at, p_forgetting FROM before b\n", "p_at, p_forgetting FROM before b WHERE false\n"),),
        WITHDRAWING,
    ),
    Mutation(
        "7: a message that a hold keeps is found",
        (without(" AND p_message.withdrawn_by IS NULL"),),
        WITHDRAWING,
    ),
    Mutation(
        "7: the end of a hold forgets nothing",
        (Change("waiting = await repository.released()", "waiting = dict[str, Closure]()"),),
        WITHDRAWING,
    ),
    Mutation(
        "7: the end of one hold takes what another keeps",
        (Change("AND (t.scope_id, t.seq) NOT IN (TABLE held)", ""),),
        WITHDRAWING,
    ),
    Mutation(
        "7: a query without a word chooses all the rest",
        (Change("    if not query.terms:\n", "    if False:\n"),),
        FORGETTING,
    ),
    Mutation(
        "7: a rebuild ends with its first batch",
        (Change("rebuild = s.rebuild AND is_due.waits", "rebuild = s.rebuild AND NOT is_due.yes"),),
        FORGETTING,
    ),
    Mutation(
        "7: a downgrade drops what is remembered unasked",
        (Change("    if not may_drop():\n", "    if False:\n", ("migrations/versions/*.py",)),),
        ("tests/migrations/test_round_trip.py",),
    ),
    Mutation(
        "7: a backup from before a forgetting is opened",
        (Change("    if found.missing:\n", "    if False:\n"),),
        FORGETTING,
    ),
    # Rule 8: what is set aside
    Mutation("8: giving up takes all that waits", (
            Change('"given_up", seqs, null(), now,', '"given_up", select(_o.seq).where(in_scope(_o, scope)), null(), now,'),
        ),),
    Mutation(
        "8: what was set aside comes back when it is said again",
        (Change("AND o.standing IN ('quarantined', 'given_up')  -- of", "AND false  -- of", SAVING),),
        CORRECTIONS,
    ),
    # Corrections
    Mutation(
        "correction: a consolidation that has read the old one is committed",
        (Change("s.scope_id = p_scope AND s.lease_until IS NOT NULL;\n        PERFORM", "false;\n        PERFORM"),),
        CORRECTIONS,
    ),
    Mutation(
        "correction: a consolidation that has read one corrected to another is committed",
        (Change("s.scope_id == scope, s.lease_until.is_not(None))", "s.scope_id == scope, false())"),),
        CORRECTIONS,
    ),
    Mutation(
        "correction: a consolidation that has read what is superseded is committed",
        (never_called("ScopeRepository(session).take_lease", "memory_sql/lifecycle/corrections/texts.py"),),
        CORRECTIONS,
    ),
    Mutation(
        "correction: what it was made of is not passed on",
        (without('inherited.cte("inherited"), '),),
        CORRECTIONS,
    ),
    Mutation(
        "privacy: what has spread can be made private by hand",
        (Change("RAISE EXCEPTION 'observation o%-% has spread", "RAISE NOTICE 'observation o%-% has spread"),),
        CORRECTIONS,
    ),
    Mutation(
        "privacy: no epoch rises",
        (never_called("ScopeRepository(session).raise_epochs", "memory_sql/lifecycle/corrections/retracting.py"),),
        CORRECTIONS,
    ),
    Mutation(
        "quarantine: no epoch rises",
        (never_called("ScopeRepository(session).raise_epochs", "memory_sql/lifecycle/corrections/quarantine.py"),),
        CORRECTIONS,
    ),
    Mutation(
        "quarantine: its end leaves what was corrected active",
        (Change("asked, agent_key, changes, replaced)", "asked, agent_key, changes)"),),
        CORRECTIONS,
    ),
    Mutation(
        "quarantine: its end undoes what was decided meanwhile",
        (
            Change(
                '[Change(standing, "active", "reinstate")]',
                '[Change(standing, "active", "reinstate", superseded_by=standing.superseded_by)]',
            ),
        ),
        CORRECTIONS,
    ),
    Mutation(
        "quarantine: in a line of corrections only what comes next counts",
        (Change("earlier.superseded_by == line.c.seq, line.c.passed)", "earlier.superseded_by == line.c.seq, false())"),),
        LINES,
    ),
    Mutation(
        "quarantine: what says the same as something set aside comes back",
        (without(", ~is_quarantined_elsewhere(scope)"),),
        LINES,
    ),
    Mutation(
        "correction: what was set aside comes beside a later one",
        (Change("    if is_in_line:\n", "    if False:\n"),),
        LINES,
    ),
    Mutation(
        "facts: old values come back beside a new one",
        (Change("if newer := [*stored[later : later + 1], *aside[sooner : sooner + 1]]:", "if newer := []:"),),
        CORRECTIONS,
    ),
    Mutation(
        "facts: values that a person put side by side are parted",
        (Change("return other.aside_at is not None and one.created_at >= other.aside_at", "return True"),),
        CORRECTIONS,
    ),
    Mutation(
        "correction: what it may not spread is forgotten",
        (without("'no_propagate', v_old.no_propagate, "),),
        ALONE,
    ),
    # Rule 9: duplicates
    Mutation(
        "9: twins that were set aside count",
        (
            without("              AND memory.in_use(t.status)\n", *SAVING),
            Change("o.content_hash = g.hash AND o.standing = 'active'\n", "o.content_hash = g.hash\n", SAVING),
        ),
    ),
    Mutation(
        "9: twins in another lane count",
        (without("              AND o.lane = g.goes\n"),),
        ("tests/integration/test_buffers.py",),
    ),
    Mutation(
        "9: twins of long ago count",
        (
            Change("WHEN 'newest' THEN o.seq = g.last", "WHEN 'newest' THEN true", SAVING),
        ),
        ("tests/integration/test_known.py",),
    ),
    Mutation(
        "9: what is known gains no evidence",
        (Change("        GROUP BY p.scope, p.number, e", "        WHERE p.is_new GROUP BY p.scope, p.number, e"),),
    ),
    # Rule 11: due
    Mutation(
        "11: what is observed or formed makes nothing due",
        (Change(" f\n    WHERE NOT jsonb_path_exists(", " f\n    WHERE false AND NOT jsonb_path_exists("),),
    ),
    Mutation(
        "11: a version does not say what is due after it",
        (Change("IF v_waits THEN PERFORM memory.refresh_due(", "IF false THEN PERFORM memory.refresh_due("),),
    ),
    Mutation("11: retry and discard make nothing due", (never_called("scopes.refresh_due", "memory_sql/jobs/dead.py"),)),
    # Locks and waiting
    Mutation(
        "locks: a hold is granted while a forgetting runs",
        (
            Change(SHARED, SHARED.replace("True", "False"), ("memory_sql/lifecycle/forgetting.py",)),
            Change(SHARED_FOUND, SHARED_FOUND.replace("True", "False")),
            Change("(conversations, scopes)), shared=True)", "(conversations, scopes)), shared=False)"),
        ),
        LOCKS,
    ),
    Mutation(
        "locks: a hold is granted while one is forgotten alone",
        (Change("WHERE a.agent_id = p_agent FOR SHARE;", "WHERE a.agent_id = p_agent;", FORGET),),
        ALONE,
    ),
    Mutation(
        "locks: a hold is granted while something is marked",
        (Change(SHARED, SHARED.replace("True", "False"), ("memory_sql/lifecycle/corrections/marking.py",)),),
        LOCKS,
    ),
    Mutation(
        "locks: more is locked beside what is held",
        (NO_SAVEPOINT,),
        LOCKS,
    ),
    Mutation("locks: a deadlock is not done again", (Change("TIMES_AGAIN = 5", "TIMES_AGAIN = 0"),), LOCKS),
    Mutation(
        "locks: a propagation reads under the lock",
        (Change("if not scope.holds_the_same(before.state):", "if True:"),),
        LOCKS,
    ),
    Mutation("waiting: writes take all connections", (Change("WRITING = 2 / 3", "WRITING = 2"),), HOST),
    Mutation("waiting: our transactions wait for ever", (Change("query + self.limits if", "query if"),), HOST),
    Mutation(
        "waiting: add alone waits for ever",
        (Change("{**SERVER_SETTINGS, **limits.of_sessions}", "SERVER_SETTINGS"),),
        HOST,
    ),
    # What isn't due yet, or any more
    Mutation("due: three messages are enough", (Change(FEW_MESSAGES, f"{FEW_MESSAGES} - 1"),), DUE),
    Mutation(
        "due: nine observations are enough",
        (Change("wanted.pending <= found.pending", "wanted.pending - 1 <= found.pending"),),
        DUE,
    ),
    Mutation(
        "due: a conversation that is excluded",
        (
            Change(
                "IF v_excluded OR v_conversation.dead_run_id IS NOT NULL",
                "IF v_conversation.dead_run_id IS NOT NULL",
                ("memory_sql/**/add_messages.sql", "migrations/versions/**/add_messages.sql"),
            ),
        ),
        DUE,
    ),
    Mutation(
        "due: a scope that is closed",
        (without("c.is_active AND c.consolidate AND ", "memory_sql/**/*.sql", "migrations/versions/**/*.sql"),),
        DUE,
    ),
    # Walls
    Mutation(
        "walls: the principal is not bound to its transaction",
        (Change("WHEN split_part(", "WHEN current_setting('memory.principal', true) LIKE '% {%' OR split_part("),),
        WALLS,
    ),
    Mutation(
        "walls: the host's principal is not put back",
        (Change("    if ends:\n", "    if True:\n", ("memory_sql/db/principals.py",)),),
        WALLS,
    ),
    Mutation(
        "walls: users see all messages of their agent",
        (without("WHERE s.agent_key = messages.agent_key AND s.conversation_id = messages.conversation_id"),),
        WALLS,
    ),
    Mutation(
        "walls: messages are added as the library in a transaction of a user",
        (Change("IF v_named IS NOT NULL AND NOT (", "IF false AND NOT ("),),
        WALLS,
    ),
    Mutation(
        "walls: the functions that read answer a user about another",
        (Change("      AND memory.asks_for(p_agent, p_user)\n", ""),),
        WALLS,
    ),
    Mutation(
        "walls: texts are hashed without the key",
        (Change("SELECT memory.keyed_hash('content', int8send(p_scope) || p_digest)", "SELECT p_digest"),),
        WALLS,
    ),
    Mutation(
        "walls: context and search are asked under policies",
        (Change("LANGUAGE plpgsql STABLE SECURITY DEFINER", "LANGUAGE plpgsql STABLE"),),
        WALLS,
    ),
    Mutation(
        "11: a batch that fails is not cut",
        (Change("max(scope.suspects // 2, 1) if scope.suspects else", "scope.suspects if scope.suspects else"),),
        TESTS,
    ),
    Mutation(
        "11: a batch is given up whole",
        (Change("if verdict.gives_up and size > 1:", "if False:"),),
        TESTS,
    ),
    # Messages that are kept
    Mutation(
        "retention: what waits to be formed loses its text",
        (Change("AND (k.keeps OR m.number <=", "AND (true OR m.number <="), Change("AND l.may_go AND", "AND")),
        MESSAGES,
    ),
    Mutation(
        "retention: what is held loses its text",
        (Change("AND memory.is_held_message(m.agent_key,", "AND false AND memory.is_held_message(m.agent_key,"),),
        MESSAGES,
    ),
    Mutation(
        "retention: a sweep waits for who works on a conversation",
        (Change("FOR NO KEY UPDATE OF s SKIP LOCKED", "FOR NO KEY UPDATE OF s NOWAIT"),),
        MESSAGES,
    ),
    Mutation(
        "retention: a hold that is opened meanwhile is overlooked",
        (Change("FOR SHARE OF a SKIP LOCKED", "FOR KEY SHARE OF a SKIP LOCKED"),),
        MESSAGES,
    ),
    Mutation(
        "messages behind something quarantined are shown",
        (Change("ON memory.is_aside(t.status) AND t.status <> 'withdrawn'", "ON false"),),
        MESSAGES,
    ),
    # Scopes that are asked about by themselves
    Mutation(
        "an isolated scope is asked about with the others",
        (
            Change("tuple(scope for scope in task.scopes if not scope.isolated)", "task.scopes"),
            Change("{scope.alias.casefold() for scope in task.scopes if scope.isolated}", "set()"),
        ),
        DIALOGUE,
    ),
    Mutation(
        "an isolated scope's call shows the others",
        (Change("self._complete(replace(task, scopes=(scope,)))", "self._complete(task)"),),
        DIALOGUE,
    ),
    Mutation(
        "another scope's answer goes into an isolated one",
        (Change(".only(lambda item: _named(item) not in apart)", ""),),
        DIALOGUE,
    ),
    # The lifecycle
    *(
        Mutation(f"label: {name}", (Change(before, after),), ("tests/unit/test_formation_task.py",))
        for name, before, after in (
            ("of two that it says the first counts", "found.items() if len(values) == 1}", "found.items() if values}"),
            ("any day is the last", r'_UNTIL = re.compile(rf"(?<!not )\buntil\W+(', r'_UNTIL = re.compile(rf"('),
            ("a moment is a day", r"(?![\w:-])", ""),
        )
    ),
    *(
        Mutation(f"said again in other words: {name}", (Change(before, after),), REPLACING)
        for name, before, after in (
            ("it stays as old", "func.coalesce(_e.said_at, _o.observed_at)", "_e.said_at"),
            ("it stays as sure", "case((~is_said_again, _o.confidence))", "case((is_said_again, _o.confidence))"),
        )
    ),
    *(
        Mutation(f"expiry: {name}", (Change(before, after),), ("tests/integration/test_expiry.py",))
        for name, before, after in (
            ("at the moment itself", "d.due_at = p_at AND d.why = 'expired'", "d.due_at = p_at"),
            ("a day lasts longer", " OR d.due_at = p_at AND d.why = 'expired'", ""),
            ("a text isn't told that plans have ended", "_t.status_at > _written_at", "literal_column('false')"),
            ("nor that it was told before", "_t.status_at > _written_at", "literal_column('true')"),
            ("what has ended is a quarter of a text", '(replaced if item.why ==', '(gone if item.why =='),
        )
    ),
    Mutation(
        "confirmed: its stage stays archived",
        (Change(', "stage": case((t.stage == "archived", "candidate"), else_=t.stage)}', "}"),),
        LIFECYCLE,
    ),
    # Propagation: what may be shown to a model
    *(
        Mutation(f"shareable: {name}", (Change(before, after, FORGET),), PROPAGATION)
        for name, before, after in (
            ("what isn't in the text yet goes", "o.seq <= s.done_seq AND o.lane = 'absorb'", "o.lane = 'absorb'"),
            ("what isn't active goes", SHAREABLE_ACTIVE, SHAREABLE_ACTIVE.partition("\n")[2]),
            ("what is disputed goes", f"{DISPUTED}\n      AND o.categories", "AND o.categories"),
            ("what is personal goes", "o.categories <@ '{contact,location}'::text[] AND o.sens", "o.sens"),
            (
                "what is unclassified goes",
                "o.categories <@ '{contact,location}'::text[] AND o.sens",
                "coalesce(o.categories, '{}') <@ '{contact,location}'::text[] AND o.sens",
            ),
            ("what is sensitive goes", "o.sensitivity <> 'sensitive' AND NOT o.no_propagate", "NOT o.no_propagate"),
            ("what is marked goes", "AND NOT o.no_propagate AND NOT o.confidential", ""),
            ("excluded conversations count", "AND c.excluded IS NOT TRUE", ""),
            ("excluded people count", EXCLUDED, "WHERE false"),
            ("what the assistant said goes", "AND memory.trust(p_agent, p_scope, o.seq) >= 2", ""),
        )
    ),
    # Propagation: what rules say of it, and of the answer
    Mutation(
        "propagation: nothing is screened before a model sees it",
        (Change("reason = rules.withheld(source.content)", "reason = None"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: nothing is screened that a model has rewritten",
        (Change("    if leak is not None:\n", "    if False:\n"),),
        PROPAGATION,
    ),
    # Propagation: what changes while the model works
    Mutation(
        "propagation: no epoch of what the prompt showed",
        (Change("state.epoch != loaded.epochs[state.scope_id]", "False"), ENDED_RUNS_SUCCEED),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what may go is not looked at again",
        (without(" and shareable.issuperset(source.key for source in item.offer.sources)"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: where it may go is not looked at again",
        (Change("if _may_go(item, rules.get(item.offer.target.place))", "if True"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: people are not counted again",
        (Change("if not await screening.still_enough(item.offer):", "if False:"),),
        PROPAGATION,
    ),
    # Propagation: how many say so
    Mutation(
        "propagation: few people are enough",
        (Change("if len(established) >= self.settings.propagation_min_people:", "if True:"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: one group is enough",
        (Change("enough = len(groups) >= self.settings.propagation_min_groups", "enough = True"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: ids are counted as people",
        (Change("memory.person(p_agent, u.user_id) AS person, least(", "u.user_id AS person, least(", FORGET),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: a group of one gives and takes",
        (
            Change(
                "AND (SELECT count(*) FROM memory.members_of(p_agent, g.scope_id)) >= 2\n    UNION\n",
                "    UNION\n",
                FORGET,
            ),
        ),
        PROPAGATION,
    ),
    Mutation(
        "propagation: many new people at once are believed",
        (Change("if len(everybody - established) >= self.settings.propagation_burst:", "if False:"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: many new members at once are believed",
        (Change("held = not _established(people) and", "held = False and"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: new people count",
        (Change("for person in group if person.established}", "for person in group}"),),
        PROPAGATION,
    ),
    # Propagation: what is taken back
    Mutation(
        "propagation: what becomes private stays where it has spread",
        (Change("derived = await LineageRepository(session, agent_key).derived(line)", "derived = ()"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what was made of something forgotten stays",
        (
            Change(
                "FROM memory.derived(p_agent, scope_ids, seqs, evidence_ids) d",
                "FROM memory.derived(p_agent, '{}', '{}', '{}') d",
                FORGET,
            ),
        ),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what was made of something quarantined stays",
        (Change("WHEN u.status = 'given_up' THEN 3 ELSE 4", "WHEN u.status = 'given_up' THEN 3 ELSE 1"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what was made of something superseded stays",
        (Change("WHEN u.status = 'superseded' THEN 2", "WHEN u.status = 'superseded' THEN 1"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what was made of something given up stays",
        (Change("WHEN u.status = 'given_up' THEN 3", "WHEN u.status = 'given_up' THEN 1"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what went with its source goes for good",
        (Change("        m.follows\n        OR memory.in_use", "        false\n        OR memory.in_use"),),
        PROPAGATION,
    ),
    Mutation(
        "propagation: what somebody has said there themselves goes with what they haven't",
        (Change("AND e.seq = m.seq\n                  AND (", "AND e.seq = m.seq\n                  AND false AND ("),),
        PROPAGATION,
    ),
    Mutation(
        "quarantine: what was merged of several stays with its words",
        (Change("await lineage.merged(", "() and await lineage.merged("),),
        PROPAGATION,
    ),
    Mutation(
        "quarantine: a user ends an operator's",
        (Change("if theirs and not asked.is_operator:", "if False:"),),
        PROPAGATION,
    ),
    Mutation(
        "quarantine: work that is tried again ends it",
        (
            Change("which = among(_t.seq, seqs) & ~_t.follows", "which = among(_t.seq, seqs)"),
            Change('"given_up", which', '"quarantined", which'),
        ),
        PROPAGATION,
    ),
    Mutation(
        "propagation: two who turn out to be one leave it to everybody",
        (never_called("corrections.retract_few"),),
        PROPAGATION,
    ),
    Mutation(
        "times: one far ahead counts as it is given",
        (Change("CASE WHEN said_at <= v_latest THEN said_at ELSE v_at END", "coalesce(said_at, v_at)"),),
        ADD,
    ),
    Mutation(
        "times: of what was said at once the first wins",
        (Change("(item.observed_at, item.seq))", "(item.observed_at, -item.seq))"),),
        ADD,
    ),
    # Lifecycle
    Mutation(
        "lifecycle: sweeps touch what is held",
        (Change(" memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)", " false"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: what is protected is archived",
        (without("      AND t.policy IS DISTINCT FROM 'protected'\n"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: what has a day is archived before it",
        (without("          AND (o.until IS NULL OR t.resolved_at IS NOT NULL)\n"),),
        LIFECYCLE,
    ),
    Mutation(
        "forecast: a stage doesn't depend on the one before",
        (Change("coalesce(w.decided % 8, k.stage)", "coalesce(array_position(c_stages, w.becomes), k.stage)"),
         Change("SELECT w.n, w.at, max(", "SELECT w.n, w.at, s.becomes, max(")),
        FORECAST,
    ),
    Mutation("forecast: uses count for ever", (Change("r.day >= w.counted", "true"),), FORECAST),
    Mutation(
        "forecast: what archival takes still expires",
        (Change("NOT (v_archival AND w.aged)", "NOT false"),),
        FORECAST,
    ),
    Mutation(
        "lifecycle: what has superseded another is archived",
        (Change("AND b.superseded_by = k.seq", "AND false"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: what is said again is as old as before",
        (Change("greatest(o.created_at, t.said_again_at)", "o.created_at"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: a sweep waits for what is locked",
        (Change("NO KEY UPDATE OF s SKIP LOCKED", "NO KEY UPDATE OF s"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: a pass that was cut begins anew",
        (Change("self._places[name, agent_id] = done.after", "pass"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: stages count although it is off",
        (Change("if settings.lifecycle else None", "if True else None"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: what is stale is not hidden",
        (Change("w.stale_hidden IS TRUE AND p_as_of", "false AND p_as_of"),),
        LIFECYCLE,
    ),
    Mutation(
        "lifecycle: what gets protected stays archived",
        (Change('t.stage == "archived")', "false())"),),
        LIFECYCLE,
    ),
    Mutation("tiers: what is worth just that little is hot", (Change("p_value <= p_demote", "p_value < p_demote"),), TIERS),
    Mutation("tiers: what is new is cold", (Change("p_age >= p_days AND", ""),), TIERS),
    Mutation(
        "tiers: what is worth just that much stays cold", (Change("p_value >= p_promote", "p_value > p_promote"),), TIERS
    ),
    Mutation("tiers: what is protected is cold", (Change("p_protected OR p_value", "p_value"),), TIERS),
    Mutation(
        "tiers: protected categories don't count",
        (Change("'protected', false) OR coalesce(p_rules -> 'protected' ? o.category, false)", "'protected', false)"),),
        TIERS,
    ),
    Mutation(
        "tiers: what is held moves",
        (Change("WHERE NOT memory.is_kept_as_it_is(d.agent_key", "WHERE true OR memory.is_kept_as_it_is(d.agent_key"),),
        TIERS,
    ),
    Mutation(
        "tiers: what is said again stays cold",
        (Change("NOT coalesce(v_at > coalesce(o.said_again_at, '-infinity'), false)", "true"),),
        TIERS,
    ),
    Mutation(
        "tiers: what is cold is out of reach", (Change("IF v_hot AND best.found <", "IF false AND best.found <"),), TIERS
    ),
    Mutation(
        "tiers: searches go by them although they are off",
        (Change("hot_first=settings.tiering", "hot_first=True"),),
        TIERS,
    ),
    Mutation("tiers: what is near by chance fills a result", (Change("OR c.close OR v_all", "OR true"),), TIERS),
    Mutation("tiers: the past has them", (Change("w.hot_first IS TRUE AND p_as_of IS NULL", "w.hot_first IS TRUE"),), TIERS),
    Mutation(
        "tiers: a vector made later is hot",
        (Change("SELECT o.standing, o.cold INTO NEW.standing, NEW.cold", "SELECT o.standing INTO NEW.standing"),),
        TIERS,
    ),
    # Rechecks, links, episodes, guidelines
    Mutation(
        "recheck: things give way to what is out of use",
        (Change("item.older is None or item.newer in stands]", "True]"),
         Change("{item.newer, item.older} & decided", "item.older in decided")),
        RECHECK,
    ),
    Mutation(
        "recheck: things give way to what is disputed",
        (Change("decided |= {seq for seq, is_disputed in stands.items() if is_disputed}", "pass"),),
        RECHECK,
    ),
    Mutation("links: the first 90 days count", (Change("ceil(c.windows - 1)", "ceil(c.windows)"),), LINKS),
    Mutation("links: the first 90 days count here", (Change("/ WINDOW - 1)", "/ WINDOW)"),), LINKS),
    Mutation("links: a weak one passes something on", (Change("e.confidence < c_floor", "false"),), LINKS),
    Mutation("links: nothing is damped", (Change("(1 - c_damping) * v_scores[i]", "v_scores[i]"),), LINKS),
    Mutation("links: nothing is inhibited", (Change("c_beta * coalesce(", "0 * coalesce("),), LINKS),
    Mutation(
        "episodes: topics outlive those who said them",
        (Change("SET topics = memory.topics_said(o, n.topics)", "SET topics = n.topics"),),
        EPISODES,
    ),
    Mutation(
        "episodes: what has no topics is about something else",
        (Change("cardinality(p_new_topics) > 0 AND memory.jaccard", "memory.jaccard"),),
        EPISODE_RULES,
    ),
    Mutation(
        "episodes: a gap is longer than it",
        (Change("p_last_at >= make_interval", "p_last_at > make_interval"),),
        EPISODE_RULES,
    ),
    Mutation("guidelines: one event is enough", (Change("if n < FEWEST:", "if n < 1:"),), GUIDELINES),
    Mutation("guidelines: quality doesn't count", (Change("QUALITY * (tally", "0 * (tally"),), GUIDELINES),
    Mutation("guidelines: they never end", (Change("if before is not None and not said:", "if False:"),), GUIDELINES),
    Mutation(
        "propagation: what is merged of several stays without one of them",
        (Change("                NOT l.whole\n", "                false\n", FORGET),),
        PROPAGATION,
    ),
    # Connections
    Mutation("a call that was never executed leaves its transaction behind", (Change(
        "            await finish(self.connection)\n", "",
    ),), ("tests/integration/test_left_unfinished.py",)),
    Mutation("a call of a session that was never executed does so, too", (Change(
        "await finish(await driver_of(own))", "pass",
    ),), ("tests/integration/test_left_unfinished.py",)),
    # What stands behind nobody any more
    Mutation("left: what former members alone support stays", (Change(
        "found = await supports.without_support(keys) if keys else ()", "found = ()",
    ),), LEFT_BEHIND),
    Mutation("left: nobody keeps what was theirs", (Change("FILTER (WHERE m.kept)", "FILTER (WHERE false)"),), LEFT_BEHIND),
    Mutation("left: what had given way stands again", (Change(
        'gave_way_to_left()) if scope.kind == "group" else', "gave_way_to_left()) if False else",
    ),), LEFT_BEHIND),
    Mutation("left: what had given way comes back beside what it gave way to", (Change(
        "which = and_(which, or_(~gave_way_to_left(), ~was_left_behind(_t)))", "pass",
    ),), LEFT_BEHIND),
    Mutation("left: what is left behind still supersedes", (Change(
        "await _pass_over(session, agent_key, found.archived)", "pass",
    ),), LEFT_BEHIND),
    Mutation("left: it matters who leaves first", (Change(
        "return {(row.scope_id, row.seq): row.after for row in found}", "return {}",
    ),), LEFT_BEHIND),
    # An agent is whole in one shard
    Mutation("moves: it can be changed in the last moment", (Change(
        "    RAISE EXCEPTION 'the agent is moving to another shard' USING ERRCODE = 'MS001';\n",
        "    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;\n    RETURN NEW;\n",
    ),), MOVING),
    Mutation("moves: a copy that isn't the same is taken", (Change("if there != here:", "if False:"),), MOVING),
    Mutation("moves: what hasn't come is deleted", (Change("if not is_there or is_fenced:", "if False:"),), MOVING),
    Mutation("moves: what another process moves is moved", (Change(
        "if not await end.value(_TRY, agent=self._agent_id):", "if False:",
    ),), MOVING),
    Mutation("moves: who gives up is told that rolling back failed", (Change(
        "        if failed is None:\n", "        if True:\n",
    ),), MOVING),
    Mutation("moves: the driver goes on reading for who gave up", (Change("reader.terminate()", "pass"),), MOVING),
    Mutation("moves: a leased one stays leased", (Change("await moving.arrive()", "pass"),), MOVING),
    Mutation("moves: work of all agents tries it", (Change(
        "apart: ColumnElement[bool] = agent_key != all_(moved)", "apart: ColumnElement[bool] = agent_key == agent_key",
    ),), MOVING),
    Mutation("moves: shards give the same ids", (Change("p_number * 10000000000 + 1", "1"),), MOVING),
    Mutation("merge: what was asked before is applied", (Change(
        "await ConversationRepository(unit).refuse_answers(agent_key)", "pass",
    ),), HEARD_BY_ONE),
    Mutation("retention: what was asked before is applied", (Change(
        "if ENDS_TEXTS & {*given, *unset}:", "if False:",
    ),), MESSAGES),
    Mutation("retention: an agent that is locked keeps its texts", (Change(
        "PERFORM FROM memory.agents a WHERE a.agent_key = v_read.agent FOR SHARE;", "NULL;",
    ),), MESSAGES),
    Mutation("import: somebody is forgotten in the middle", (Change(
        "await lock_agent(unit, agent.key)  # who is forgotten", "pass  # who is forgotten",
    ),), ("tests/integration/test_imported.py",)),
    Mutation("guidelines: learnt of what has gone", (Change(
        "if lines(await ActionRepository(unit).tallies(agent_key)) != found.lines:", "if False:",
    ),), GUIDELINES),
    Mutation("forgetting: a text keeps words of what it left waiting", (Change(
        "passed_seqs=sorted(decided.waits),", "passed_seqs=[],",
    ),), ("tests/integration/test_shown_and_waiting.py",)),
    Mutation("edits: what was out of sight is back", (Change("if one.number in protected:", "if False:"),), EDITS),
    Mutation("edits: the first text of a call counts", (Change("last[one.id] == place", "True"),), EDITS),
    Mutation("requests: what others have said since is erased", (Change(
        "if await requests.said_by_others_since(one):", "if False:",
    ),), ("tests/integration/test_requests.py",)),
    # What one person, or a weak model, can do to others' memory
    Mutation("texts: a sentence told otherwise stays so", (
        Change("        if turned or not _has_figures_of(_undated(sentence), text):", "        if False:"),
        Change("if copies and not any(", "if False and not any("),
    ), TOLD),
    Mutation("texts: what is told in other words is put back", (Change("COPIED = 0.6", "COPIED = 0.0"),), TOLD),
    Mutation("texts: several sentences tell nothing together", (without(" or _together(words, told) >= TOLD"),), TOLD),
    Mutation("texts: what is passed over is absorbed", (Change(
        "passed_over = frozenset(", "passed_over = frozenset[int]() and frozenset(",
    ),), TOLD),
    Mutation("overtaking: any word tells others' rows apart", (Change(
        'not tells_apart(item.was or "", common)', "False",
    ),), OTHERS),
    Mutation("overtaking: said again while the model wrote", (Change(
        "or_(_e.run_id > run_id, stated)", "_e.run_id > run_id",
    ),), OTHERS),
    Mutation("overtaking: counted in one scope of a group", (Change(
        "self._named_since(scope, since, of_owner=True)", "self._named_since(scope, since)",
    ),), OTHERS),
    Mutation("overtaking: each id of a person counts apart", (Change(
        "person = func.memory.person(_e.agent_key, _e.user_id)", "person = _e.user_id",
    ),), OTHERS),
    Mutation("contact: a dot or a dash tells nothing", (Change(
        'return plain if "@" in plain else re.sub', "return re.sub",
    ),), ("tests/unit/test_other_contact.py",)),
    Mutation("forgetting: the agent's answer stays", (Change(
        "IF NOT p_others_stay THEN", "IF false THEN", FORGET,
    ),), ("tests/integration/test_forgotten_answers.py",)),
    Mutation("requests: what is answered to one keeps its text", (without(
        ", m.number.in_(select(answers.c.number))",
    ),), ("tests/integration/test_spoken_requests.py",)),
    Mutation("forgetting: words of another conversation stay without it", (Change(
        "ELSE o.source_kind = 'formation' AND", "ELSE false AND", FORGET,
    ),), SHORT),
    Mutation("formation: words of another conversation lead to nothing", (Change(
        "if others or lent:", "if others:",
    ),), SHORT),
    Mutation("likeness: who says a part vouches for the rest", (Change(
        " and len(said & there) >= ALIKE * len(said)", "",
    ),), ("tests/integration/test_vouching.py",)),
    Mutation("judge: its wording has words of another claim", (Change(
        "    if borrows(text", "    if False and borrows(text",
    ),), ("tests/integration/test_vouching.py",)),
    Mutation("same_as: a part of it stands behind somebody else's sentence", (Change(
        "if not _overtakes_others(authors[newer], authors[older]) or says_the_same", "if True or says_the_same",
    ),), OTHERS),
    Mutation("texts: what is left out is a counterpart", (Change(
        "if is_compared and len(stand) < len(parts):  # what", "if False:  # what",
    ),), ("tests/unit/test_untold.py",)),
    Mutation("likeness: two values of one thing are one claim", (Change(
        "or _differ_in_one_place(one.order, other.order)", "",
    ),), ("tests/unit/test_screening.py",)),
    Mutation("vectors: who has fewer words is above who waits for its vector", (Change(
        "CASE WHEN c.covered = c.most THEN c.less END AS fewer", "NULL::double precision AS fewer",
    ),), ("tests/integration/test_vectors_missing.py",)),
)  # fmt: skip


def places(folder: Path, change: Change) -> Iterator[Path]:
    for pattern in change.where:
        yield from (path for path in folder.glob(pattern) if change.before in path.read_text())


def mutate(folder: Path, mutation: Mutation) -> None:
    for change in mutation.changes:
        found = list(places(folder, change))
        assert found, f"{mutation.name}: nothing holds {change.before!r} any more"
        for path in found:
            path.write_text(path.read_text().replace(change.before, change.after))


def noticed_by(mutation: Mutation, known: str | None = None) -> str | None:
    """The first test that fails; None: all pass."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__"))
        mutate(folder, mutation)
        return (known and _first_failing(folder, [known])) or _first_failing(folder, mutation.tests)


def _first_failing(folder: Path, tests: Sequence[str]) -> str | None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, IS_GONE), done.stdout + done.stderr
    failed = NOTICED.search(done.stdout)
    assert (failed is not None) == (done.returncode == 1), done.stdout
    return failed and failed[1]


def main() -> int:
    wanted = sys.argv[1:]
    failing = (
        None
        if wanted
        else noticed_by(
            Mutation("nothing", (), (*TESTS, *DUE, *RULES, *WALLS, *FORGETTING, *DIALOGUE, *MESSAGES, *PROPAGATION))
        )
    )
    assert failing is None, f"{failing} fails as it is"
    chosen = [mutation for mutation in MUTATIONS if not wanted or any(part in mutation.name for part in wanted)]
    before = json.loads(KNOWN.read_text())
    known: dict[str, str | None] = {mutation.name: before.get(mutation.name) for mutation in MUTATIONS}
    missed = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as side_by_side:
        tried = side_by_side.map(noticed_by, chosen, [known[mutation.name] for mutation in chosen])
        for mutation, test in zip(chosen, tried, strict=True):
            print(f"{'noticed' if test else 'MISSED':8} {mutation.name}: {test}", flush=True)
            missed += test is None
            known[mutation.name] = test
            KNOWN.write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
