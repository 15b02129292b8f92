"""Two hundred people in fifty groups say private and shared things to a model that would pass on everything."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.llm.openai import OpenAI
from memory_sql.memory import Memory
from memory_sql.privacy.classify import classify
from memory_sql.propagation.likeness import ALIKE, same_claim
from memory_sql.propagation.rules import withheld
from tests.database import rows
from tests.decoys import verdict
from tests.factories import message
from tests.judges import JUDGES
from tests.loopback import Loopback, answering, loopback
from tests.obedient import Obedient, purpose_of
from tests.private_facts import PEOPLE, Conversation, Private, conversations
from tests.sizes import few_in_ci

SETTINGS = Settings(
    formation_messages=1,
    consolidation_threshold=1,
    consolidation_min_ratio=0.0,
    consolidation_max_words=100_000,
    propagation_interval_minutes=0,
    retry_first_seconds=0.01,
    retry_longest_seconds=0.1,
)
JUDGED = "propagation prompts"
COUNTS = [48, pytest.param(210, marks=pytest.mark.prove)]
GROUPS, MEMBERS = 50, 4
ALL_AT_ONCE = 4
HARMLESS = re.compile("meanwhile|another process")  # somebody else did it, or will

# Said by two members of each of three groups; the last one by four members of one group.
LESSONS = (
    "Release notes list every change of the API",
    "Code reviews are faster with small pull requests",
    "Backups of the production database are tested every month",
    "Integration tests run before each deployment",
)
OF_ONE_GROUP = "Deployments start with a dry run on the staging server"
# Without the name of who said it, owns it or does it.
_UNNAMED = (
    (re.compile(rf"^(?:{'|'.join(PEOPLE)}) (?:said|mentioned that) the\b"), "The"),
    (re.compile(rf"^(?:{'|'.join(PEOPLE)}) owns (the .*)"), r"\1 has an owner"),
    (re.compile(rf"^(?:{'|'.join(PEOPLE)}) maintains (the .*)"), r"\1 is maintained"),
    (re.compile(rf" by (?:{'|'.join(PEOPLE)})\b"), ""),
)
WIDER = """
    SELECT s.owner, o.content FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)
    WHERE s.kind <> 'individual'
    UNION ALL
    SELECT s.owner, c.content FROM memory.consolidations c JOIN memory.scopes s USING (agent_key, scope_id)
    WHERE s.kind <> 'individual'
"""
LEFT = """
    SELECT (SELECT count(*) FROM memory.conversations WHERE due_at IS NOT NULL OR (unformed_messages > 0 AND NOT excluded))
         + (SELECT count(*) FROM memory.scopes WHERE due_at IS NOT NULL OR propagate_at IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Talk:
    """What one user says in a conversation of their group."""

    number: int
    conversation: Conversation

    @property
    def group(self) -> int:
        return self.number // MEMBERS % GROUPS

    @property
    def who(self) -> dict[str, Any]:
        """Two agents have every other group each."""
        user = self.number % (GROUPS * MEMBERS)
        return {
            "agent_id": f"agent-{self.group % 2}",
            "user_id": f"u{user:03}",
            "conversation_id": self.conversation.id,
        }

    @property
    def lesson(self) -> str | None:
        place, member = self.group // 2, self.number % MEMBERS
        if place == 3 * len(LESSONS):
            return OF_ONE_GROUP
        return LESSONS[place // 3] if place < 3 * len(LESSONS) and member < 2 else None

    @property
    def said(self) -> list[str]:
        """In one breath with what is for all."""
        private, shared = self.conversation.private, self.conversation.shareable
        texts = [f"{private[0].text}. {shared[0]}.", *(f"{one.text}." for one in private[1:])]
        return [*texts, f"{self.lesson}."] if self.lesson else texts

    @property
    def canaries(self) -> set[str]:
        return {private.canary.casefold() for private in self.conversation.private}

    async def add(self, memory: Memory, **more: Any) -> None:
        name = self.conversation.speaker
        said = [message(text, n=n, name=name) for n, text in enumerate(self.said, 1)]
        await memory.add(said, **{**self.who, "group_ids": [f"crew-{self.group}"], **more})


def unnamed(text: str) -> str:
    for pattern, words in _UNNAMED:
        text = pattern.sub(words, text)
    return text[0].upper() + text[1:]


@asynccontextmanager
async def remembering(url: str, model: Obedient) -> AsyncIterator[tuple[Memory, Loopback]]:
    """A memory whose model is the official client, and behind that a server that obeys everybody."""
    async with loopback(answering(model)) as server:
        client = OpenAI(base_url=server.base_url, max_retries=0)
        try:
            async with Memory(url, client, SETTINGS) as memory:
                yield memory, server
        finally:
            await client.close()


async def settle(memory: Memory) -> None:
    """Everything that is due is done, over both levels, until nothing is left to do."""
    for _ in range(100):
        done = await asyncio.gather(*(memory.run_due() for _ in range(ALL_AT_ONCE)))
        assert {reason for one in done for reason in one.failed.values() if not HARMLESS.search(reason)} == set()
        if await rows(memory, LEFT) == [(0,)]:
            return
        await asyncio.sleep(0.01)  # until what failed for another's sake is tried again
    raise AssertionError("there is always something left to do")


async def finish(memory: Memory, judge: str) -> None:
    """All that is due; where the judge isn't believed, what it had to judge waits for ever."""
    if judge in ("honest", "obeys"):
        await settle(memory)
    else:
        for _ in range(4):
            await memory.run_due(limit=10_000)
            await asyncio.sleep(0.05)  # until what failed is tried again


def prompts(server: Loopback, purpose: str) -> list[str]:
    return [received.prompt for received in server.requests if purpose_of(received) == purpose]


async def leaked(memory: Memory, server: Loopback, canaries: Collection[str], log: str) -> dict[str, list[str]]:
    """Which of the words got somewhere where they mustn't be, by the place."""
    ledger = "SELECT t::text FROM memory.runs t UNION ALL SELECT t::text FROM memory.judged t"
    places = {
        JUDGED: prompts(server, "propagation"),
        "wider scopes": [str(row) for row in await rows(memory, WIDER)],
        "runs and judgements": [str(row) for row in await rows(memory, ledger)],
        "log": [log],
    }
    return {place: found for place, texts in places.items() if (found := _held("\n".join(texts), canaries))}


def _held(text: str, canaries: Collection[str]) -> list[str]:
    return sorted(canary for canary in canaries if canary in text.casefold())


async def known(memory: Memory, kind: str) -> dict[tuple[str, str], set[str]]:
    """What the scopes of a kind know, by agent and owner, without the dates that were added."""
    found = await rows(
        memory,
        "SELECT a.agent_id, s.owner, o.content FROM memory.observations o JOIN memory.scopes s"
        " USING (agent_key, scope_id) JOIN memory.agents a USING (agent_key) WHERE s.kind = :kind",
        kind=kind,
    )
    by_owner: dict[tuple[str, str], set[str]] = {}
    for agent, owner, content in found:
        by_owner.setdefault((agent, owner), set()).add(re.sub(r" \(\d[^)]*\)", "", content))
    return by_owner


async def hear(memory: Memory, talks: Iterable[Talk]) -> None:
    for talk in talks:
        await talk.add(memory)


def quiet_client(caplog: pytest.LogCaptureFixture) -> None:
    """All that is logged at DEBUG is looked at but the requests that the client itself writes down there when asked to."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="openai")


def honest(text: str) -> dict[str, Any]:
    """What is somebody's own stays; all else goes, and decoys as they should."""
    own = any(canary in text.casefold() for canary in CANARIES)
    return {"personal": True, "general": False, "valuable": False} if own else verdict(text)


def family(fact: Private) -> str:
    """What the rules take it for, before anybody judges it."""
    return next(iter(sorted(classify(fact.text).categories)), None) or withheld(fact.text) or "for the judge"


CANARIES = {private.canary.casefold() for one in conversations() for private in one.private}


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
async def test_no_private_fact_reaches_anybody_else(
    database_url: str, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """R040, R097–R101, D95–D98: by a judge that is right about them; and what is for all arrives."""
    quiet_client(caplog)
    talks = [Talk(n, one) for n, one in enumerate(conversations()[:count])]
    canaries = {canary for talk in talks for canary in talk.canaries}
    assert len(canaries) == 2 * count
    async with remembering(database_url, Obedient(say=unnamed, judge=honest)) as (memory, server):
        await hear(memory, talks)
        await settle(memory)

        assert _held("\n".join(prompts(server, "extraction")), canaries) == sorted(canaries)  # all of them were said
        assert (await leaked(memory, server, canaries, caplog.text)).keys() <= {JUDGED}

        groups, everybody = await known(memory, "group"), await known(memory, "collective")
        shared = [talk for talk in talks if _knows(groups, talk, talk.conversation.shareable[0])]
        assert len(shared) >= 0.9 * len(talks)
        for agent in ("agent-0", "agent-1"):
            wider = everybody[agent, "c"]
            assert wider >= _told_by_enough(talks, agent, lambda one, other: one == other)
            assert wider <= _told_by_enough(talks, agent, lambda one, other: same_claim(one, other) >= ALIKE)

        assert await shown_to_others(memory, talks) == set()
        assert list(await memory.admin.verify()) == []


BY_JUDGE = {"shared", "personal", "not_general", "not_valuable", "unanswered"}


async def told_to_others(memory: Memory, talks: Sequence[Talk]) -> set[str]:
    """The canaries that stand in anything but the scope of who said them."""
    wider = "\n".join(str(row) for row in await rows(memory, WIDER))
    return set(_held(wider, {canary for talk in talks for canary in talk.canaries}))


async def shown_to_others(memory: Memory, talks: Sequence[Talk]) -> set[str]:
    """The canaries of others in what some of them are shown."""
    shown = set()
    for talk in talks[::10]:
        context = await memory.context(**talk.who, message="What do you know about everybody?")
        shown |= set(_held(context.xml, {canary for one in talks for canary in one.canaries} - _own(talks, talk)))
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", few_in_ci(["yes", "no", "random"], ["random"]))
async def test_bad_judge_decides_nothing_and_is_named(database_url: str, name: str, count: int) -> None:
    """None of its answers counts, neither for nor against a claim; how often it was wrong is counted.

    One that guesses is right on four decoys once in 84 answers, and then on those of a few claims.
    """
    talks = [Talk(n, one) for n, one in enumerate(conversations()[:count])]
    async with remembering(database_url, Obedient(say=unnamed, judge=JUDGES[name]())) as (memory, _):
        await hear(memory, talks)
        await finish(memory, name)
        told = await told_to_others(memory, talks)
        reasons = dict(await rows(memory, "SELECT reason, count(*) FROM memory.judged GROUP BY 1"))
        by_judge = {reason: n for reason, n in reasons.items() if reason in BY_JUDGE}
        rates = [(await memory.admin.stats(agent_id=agent)).judges[0] for agent in ("agent-0", "agent-1")]
        wrong, answers = sum(rate.wrong for rate in rates), sum(rate.answers for rate in rates)
        sys.stdout.write(f"{name}: {len(told)} of {2 * count} told, {wrong} of {answers} answers wrong\n")
        assert await shown_to_others(memory, talks) <= told
        if name == "random":
            assert len(told) <= count / 24
            assert sum(by_judge.values()) <= count / 3
            assert wrong >= 0.9 * answers
        else:
            assert (told, by_judge) == (set(), {})
            assert wrong == answers > count
        halved = "SELECT count(*), max(propagation_errors) FROM memory.scopes WHERE propagation_failures > 0"
        ((waiting, errors),) = await rows(memory, halved)
        assert waiting > 0.4 * count
        assert errors == 0
        assert list(await memory.admin.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
async def test_judge_that_is_right_on_decoys_alone_leaves_it_to_the_rules(database_url: str, count: int) -> None:
    """The worst that there can be: it obeys every claim. Nothing secret, marked or confidential goes, and no order."""
    talks = [Talk(n, one) for n, one in enumerate(conversations()[:count])]
    facts = [private for talk in talks for private in talk.conversation.private]
    async with remembering(database_url, Obedient(say=unnamed, judge=JUDGES["obeys"]())) as (memory, _):
        await hear(memory, talks)
        await settle(memory)
        told = await told_to_others(memory, talks)
        by_family = Counter(family(one) for one in facts if one.canary.casefold() in told)
        sys.stdout.write(f"rules alone, of {dict(Counter(map(family, facts)))}: {dict(by_family)}\n")
        assert by_family.keys() == {"for the judge"}
        assert len(told) <= 0.4 * len(facts)  # the others name somebody who is known there, or nobody
        assert await shown_to_others(memory, talks) <= told
        assert list(await memory.admin.verify()) == []


def _told_by_enough(talks: Sequence[Talk], agent: str, same: Callable[[str, str], bool]) -> set[str]:
    """By three people of two groups, by the settings: lessons, and what happens to be said of the same matter."""
    said = [
        (f"{unnamed(text)}.", talk.who["user_id"], talk.group)
        for talk in talks
        if talk.who["agent_id"] == agent
        for text in (*talk.conversation.shareable, *filter(None, [talk.lesson]))
    ]
    found = set()
    for text in {text for text, _, _ in said}:
        behind = [(user, group) for other, user, group in said if same(text, other)]
        if len({user for user, _ in behind}) >= 3 and len({group for _, group in behind}) >= 2:
            found.add(text)
    return found


def _knows(groups: dict[tuple[str, str], set[str]], talk: Talk, fact: str) -> bool:
    return f"{unnamed(fact)}." in groups.get((talk.who["agent_id"], f"g:crew-{talk.group}"), ())


def _own(talks: Sequence[Talk], mine: Talk) -> set[str]:
    return {canary for talk in talks if talk.who["user_id"] == mine.who["user_id"] for canary in talk.canaries}


WORK = "The {canary} service runs Postgres 16."
OF = {
    "nothing": "Zorplain",
    "marked private": "Quibmark",
    "marked sensitive": "Vlemsens",
    "disputed": "Draxdisp",
    "of an excluded user": "Plonuser",
    "of an excluded conversation": "Twivsess",
    "of a conversation that is excluded later": "Smerlate",
    "a secret": "Gralsecr",
}


@pytest.mark.parametrize(
    "name", ["obeys", *(pytest.param(name, marks=pytest.mark.slow) for name in ("yes", "no", "random"))]
)
async def test_no_protected_fact_reaches_anybody_else(
    database_url: str, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """R121, R172: all of them are plain statements about work, so that nothing but the mark stands against them."""
    quiet_client(caplog)
    mia: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
    canaries = {means: canary.casefold() for means, canary in OF.items()}
    async with remembering(database_url, Obedient(judge=JUDGES[name]())) as (memory, server):
        await memory.configure(agent_id="ada", propagation_excluded_users=["plon"])
        for user in ("mia", "gene", "plon"):
            await memory.add(
                [message("Hello.")], agent_id="ada", user_id=user, conversation_id=f"{user}-hello", group_ids=["crew"]
            )
        for means, canary in OF.items():
            text = f"The deploy password is {canary}-7uQ!x9." if means == "a secret" else WORK.format(canary=canary)
            user = "plon" if means == "of an excluded user" else "mia"
            excluded = means == "of an excluded conversation"
            said = [message(text, name="Mia")]
            where: dict[str, Any] = {"conversation_id": means, "group_ids": ["crew"], "excluded": excluded}
            await memory.add(said, agent_id="ada", user_id=user, **where)
            if not excluded:
                await memory.conversations.form(agent_id="ada", conversation_id=means)
        ids = {o.content: o.id for o in await memory.observations.list(**mia, limit=100)}
        await memory.observations.mark(ids[WORK.format(canary=OF["marked private"])], **mia, private=True)
        await memory.observations.mark(ids[WORK.format(canary=OF["marked sensitive"])], **mia, sensitivity="sensitive")
        await memory.observations.dispute(ids[WORK.format(canary=OF["disputed"])], **mia)
        await memory.conversations.exclude(agent_id="ada", conversation_id="of a conversation that is excluded later")
        await finish(memory, name)

        protected = {canary for means, canary in canaries.items() if means != "nothing"}
        assert await leaked(memory, server, protected, caplog.text) == {}
        plain = WORK.format(canary=OF["nothing"])
        if name == "obeys":
            assert plain in (await known(memory, "group"))["ada", "g:crew"]  # nothing else stood against the others
        never_said = {canaries["a secret"], canaries["of an excluded conversation"]}
        assert _held("\n".join(received.prompt for received in server.requests), never_said) == []

        await memory.observations.mark(ids[plain], **mia, private=True)
        await finish(memory, name)
        assert canaries["nothing"] not in str(await rows(memory, WIDER)).casefold()
        assert list(await memory.admin.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "to_the_agent_alone"),
    few_in_ci([*product(("group_1", "collective"), (False, True))], [("group_1", True), ("collective", False)]),
)
@pytest.mark.parametrize("name", ["honest", *(pytest.param(name, marks=pytest.mark.prove) for name in JUDGES)])
async def test_what_is_misplaced_at_extraction_goes_no_further(
    database_url: str, caplog: pytest.LogCaptureFixture, name: str, place: str, to_the_agent_alone: bool
) -> None:
    """D42: nobody else has heard what one member said alone, so wherever the model files it, it stays with who said it.

    The judge says of it what it would say of anything: what is classified isn't even shown to it.
    """
    quiet_client(caplog)
    talks = [Talk(n, one) for n, one in enumerate(conversations()[:16])]
    facts = [private for talk in talks for private in talk.conversation.private]
    canaries = {fact.canary.casefold() for fact in facts}
    kept = {fact.canary.casefold() for fact in facts if family(fact) != "for the judge"}
    assert len(kept) > 5
    judge = honest if name == "honest" else JUDGES[name]()
    model = Obedient(place=lambda _, offered: place if place in offered else "group_1", say=unnamed, judge=judge)
    async with remembering(database_url, model) as (memory, server):
        for talk in talks if to_the_agent_alone else ():
            hello = {**talk.who, "conversation_id": f"{talk.conversation.id}-hello"}
            await memory.add([message("Hello.")], **hello, group_ids=[f"crew-{talk.group}"])
        for talk in talks:
            await talk.add(memory, **({"group_ids": []} if to_the_agent_alone else {}))
        await finish(memory, name)
        assert await leaked(memory, server, kept, caplog.text) == {}
        told = await told_to_others(memory, talks)
        assert told == set() if name in ("honest", "yes", "no") else told <= canaries - kept
        assert await shown_to_others(memory, talks) <= told
        proposed = await rows(memory, "SELECT count(*) FROM memory.observations WHERE proposed IS NOT NULL")
        assert proposed[0][0] > len(talks)
        assert list(await memory.admin.verify()) == []


class Gossip:
    """Remembers what it was told in confidence, and says it in place of what it is asked about."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.told = 0

    def place(self, sentence: str, _: Collection[str]) -> str:
        if any(private.text in sentence for one in conversations() for private in one.private):
            self.heard.append(sentence.rstrip("."))
        return "individual"

    def rewrite(self, claim: Any, text: str) -> str:
        self.told += 1
        secret = self.heard[self.told % len(self.heard)]
        canary = next(word for word in secret.split()[::-1] if len(word) > 5)
        return [f"{secret}.", f"{text.rstrip('.')} and {secret}.", f"{secret}. {text}", f"{text} {canary}."][
            self.told % 4
        ]


@pytest.mark.slow
async def test_private_facts_that_the_model_puts_into_its_answer_are_refused(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It can't have seen them among the claims; a model may have them from elsewhere."""
    quiet_client(caplog)
    talks = [Talk(n, one) for n, one in enumerate(conversations()[:16])]
    canaries = {canary for talk in talks for canary in talk.canaries}
    gossip = Gossip()
    async with remembering(database_url, Obedient(place=gossip.place, rewrite=gossip.rewrite, judge=honest)) as (
        memory,
        server,
    ):
        await hear(memory, talks)
        await settle(memory)
        assert gossip.told > len(talks)
        assert (await leaked(memory, server, canaries, caplog.text)).keys() <= {JUDGED}
        assert list(await memory.admin.verify()) == []
