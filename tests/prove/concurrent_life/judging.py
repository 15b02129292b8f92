"""What must hold whenever a concurrent life rests, checked in the tables themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import text

from memory_sql.db.principals import SERVICE
from memory_sql.memory import Memory
from tests.prove.concurrent_life.clients import Client
from tests.prove.concurrent_life.ledger import TOKEN, Ledger
from tests.prove.concurrent_life.world import AGENTS, World

SHOWN = 5  # of a kind
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'memory'"
EVERY_WORD = r"""
    SELECT DISTINCT found[1] FROM memory.{} t, regexp_matches(to_jsonb(t)::text, '\m77\.\d{{6}}\M', 'g') found
"""
MESSAGES = """
    SELECT a.agent_id, m.message_id, m.content, m.number <= c.formed_number AND m.eligible,
           array(SELECT min(format('s%s, %s', e.scope_id, o.lane)) FROM memory.evidence e
                 JOIN memory.observations o USING (agent_key, scope_id, seq)
                 LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
                 WHERE (e.agent_key, e.conversation_id, e.number) = (m.agent_key, m.conversation_id, m.number)
                   AND o.source_kind = 'formation' AND o.content = m.content
                   -- not what a formation had left out when the one after it said it again
                   AND (t.status IS DISTINCT FROM 'superseded' OR t.superseded_by IS NOT NULL)
                 GROUP BY e.scope_id, e.seq),
           EXISTS (SELECT FROM memory.events v
                   JOIN memory.evidence e USING (agent_key, scope_id, seq)
                   WHERE (e.agent_key, e.conversation_id, e.number) = (m.agent_key, m.conversation_id, m.number)
                     AND v.kind = 'status' AND v.detail ->> 'why' = 'again')
    FROM memory.messages m
    JOIN memory.agents a USING (agent_key)
    JOIN memory.conversations c USING (agent_key, conversation_id)
    WHERE m.content IS NOT NULL
"""
OBSERVATIONS = """
    SELECT a.agent_id, s.scope_id, s.kind, o.source_kind, o.content, coalesce(t.status, 'active'),
           o.lane = 'absorb', o.seq <= s.done_seq, p.seq IS NOT NULL
    FROM memory.observations o
    JOIN memory.agents a USING (agent_key)
    JOIN memory.scopes s USING (agent_key, scope_id)
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    LEFT JOIN LATERAL memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) p ON p.seq = o.seq
"""
TEXTS = "SELECT scope_id, content FROM memory.scopes JOIN memory.consolidations USING (agent_key, scope_id, version)"


async def judge(memory: Memory, world: World, client: Client) -> None:
    ledger = world.ledger
    async with memory.database.transaction(principal=SERVICE) as unit:

        async def ask(statement: str) -> list[Any]:
            return list(await unit.execute(text(statement)))

        words = await words_of(lambda statement: unit.execute(text(statement)))
        messages, observations, texts = await ask(MESSAGES), await ask(OBSERVATIONS), await ask(TEXTS)
    problems = [
        *(f"{v.invariant}: {v.key} {v.detail}" for v in await memory.admin.verify()),
        *remains(ledger, words),
        *lost(ledger, messages, observations),
        *formed(ledger, messages),
        *told(observations, dict(texts)),
        *spread(ledger, observations),
    ]
    for problem in problems:
        world.found(problem)
    gone = ledger.gone()
    for agent in sorted(set(AGENTS)):
        await client.read_without(agent, gone)
    world.did["words looked for"] += len(gone)


async def words_of(ask: Callable[[str], Awaitable[Iterable[Any]]]) -> dict[str, set[str]]:
    """All unique words, by the table in which they are."""
    return {name: {row[0] for row in await ask(EVERY_WORD.format(name))} for (name,) in await ask(TABLES)}


def remains(ledger: Ledger, words: dict[str, set[str]]) -> Iterator[str]:
    gone = ledger.gone()
    for table, found in words.items():
        for token in islice(sorted(found & gone), SHOWN):
            yield f"forgotten, but in memory.{table}: {token} ({history(ledger, token)})"


def lost(ledger: Ledger, messages: Iterable[Any], observations: Iterable[Any]) -> Iterator[str]:
    there = {(agent, number) for agent, number, *_ in messages}
    known = {(agent, token) for agent, *_, content, _, _, _, _ in observations for token in TOKEN.findall(content)}
    for said in ledger.utterances:
        if said.acked is None or said.gone or said.doubtful:
            continue
        if said.via == "message" and (said.agent, said.message) not in there:
            yield f"acknowledged and lost: {said}"
        if said.via in ("observe", "update", "import") and (said.agent, said.token) not in known:
            yield f"acknowledged and lost: {said}"


def formed(ledger: Ledger, messages: Iterable[Any]) -> Iterator[str]:
    """Each message once in each lane of a scope that the model named, in one at least."""
    said = {(one.agent, one.message): one for one in ledger.utterances if one.message}
    for agent, number, _, is_formed, scopes, again in messages:
        one = said[agent, number]
        twice = [scope for scope, count in Counter(scopes).items() if count > 1]
        if twice:
            yield f"formed more than once in scopes {twice}: {one}"
        if not scopes and not again and not one.doubtful and not one.may_stay_unformed:
            yield f"{'formed, but nothing is known of it' if is_formed else 'not formed'}: {one}"


def told(observations: Iterable[Any], texts: dict[int, str]) -> Iterator[str]:
    """A text tells what was absorbed, each once; not what waits, nor what was set aside."""
    rows = defaultdict[int, list[Any]](list)
    for row in observations:
        rows[row[1]].append(row)
    for scope, known in rows.items():
        shown = Counter(TOKEN.findall(texts.get(scope, "")))
        absorbed, waiting, aside, held = set[str](), set[str](), set[str](), Counter[str]()
        overtaken = set[str]()  # of which a text may still tell
        for _, _, _, _, content, status, absorbs, is_behind, pending in known:
            tokens = set(TOKEN.findall(content))
            held.update(tokens)
            if pending:
                waiting |= tokens
            elif status == "active" and absorbs and is_behind:
                absorbed |= tokens
            elif status == "quarantined":
                aside |= tokens
            elif status in ("superseded", "archived", "evicted") and absorbs and is_behind:
                overtaken |= tokens
        for name, wrong in (
            (
                "tells more often than it knows it",
                {token for token, count in shown.items() if count > max(held[token], 1)},
            ),
            ("has absorbed and doesn't tell", absorbed - set(shown)),
            ("tells what waits", (waiting - absorbed - overtaken) & set(shown)),
            ("tells what was set aside", (aside - absorbed - overtaken) & set(shown)),
            ("tells what it doesn't know", set(shown) - set(held)),
        ):
            if wrong:
                about = [tuple(row) for row in known if wrong & set(TOKEN.findall(row[4]))]
                yield f"the text of s{scope} {name}: {sorted(wrong)[:SHOWN]}; it knows {about[:SHOWN]}"


def spread(ledger: Ledger, observations: Iterable[Any]) -> Iterator[str]:
    """What is shared in the same words is so once in a scope; what all who said it made private isn't."""
    counts = Counter[tuple[int, str]]()
    for agent, scope, _, source, content, status, *_ in observations:
        if source != "propagation":
            continue
        counts[scope, content] += status == "active"
        for token in TOKEN.findall(content):
            live = ledger.live(agent, token)
            if live and all(said.private for said in live):
                yield f"made private, but shared with s{scope}: {token} ({history(ledger, token)})"
    for (scope, content), count in counts.items():
        if count > 1:
            yield f"shared {count} times with s{scope}: {content}"


def history(ledger: Ledger, token: str) -> str:
    return "; ".join(str(said) for said in ledger.utterances if said.token == token)
