"""`memory-sql demo`: conversations are formed, a fact is superseded, a member sees less, a sentence is forgotten."""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_sql.cli import output
from memory_sql.cli.batches import consolidate_each, form_each
from memory_sql.cli.options import AsJson, Data, Url, named_database, resolve, run
from memory_sql.cli.page import Clock, Page, example, model_text, option, runnable, shown_with
from memory_sql.errors import NotFoundError

if TYPE_CHECKING:
    from memory_sql.cli.files import Conversation
    from memory_sql.domain.observations import Observation
    from memory_sql.domain.results import Receipt, Violation
    from memory_sql.domain.scopes import Scope
    from memory_sql.memory import Memory

AGENT = "memory-sql-demo"  # the demo empties its memory when it starts, so the name must be its own
CONVERSATIONS = ("harbor-2026-03-03", "jonas-2026-03-04", "harbor-2026-03-17")
ABOUT, PRIVATE = "ship", "cardiologist"  # a word of the fact that changes, and of the private one
ASKED = "When do we ship?"
FORGOTTEN, WORD = ("harbor-2026-03-17", "harbor-2026-03-17-09"), "kronor"  # where it was said, and a word of it
PEOPLE = ("mia", "jonas")


@dataclass(slots=True)
class Shown:
    """The results of the demo, as `--json` prints them."""

    agent: str = AGENT
    conversations: int = 0
    messages: int = 0
    observations: int = 0
    superseded: dict[str, str] = field(default_factory=dict)
    private: bool = False
    forgotten: Receipt | None = None
    left: int = 0
    violations: tuple[Violation, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def problems(self) -> dict[str, str]:
        """What went wrong, and why."""
        found = dict(self.failed)
        if not self.observations:  # there is nothing that anything else could be true of
            return {**found, "formation": "no observation was formed, so nothing was shown"}
        if not self.private:
            found.setdefault("privacy", "the language model put something private into a shared scope")
        if self.left:
            found["forgetting"] = f"{output.many(self.left, 'record')} left"
        if self.violations:
            found["verify"] = output.many(len(self.violations), "violation")
        return found


def demo(
    everything: Annotated[bool, typer.Option("--all", help="Show every step, with the whole example.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the language model of your settings; this may cost.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows what memory makes of an example conversation.

    \b
    memory-sql demo
    memory-sql demo --all --data /tmp/demo

    Two people, Mia and Jonas, talk to an agent called Ada. The demo has its own embedded Postgres and can be run again. Rules
    that quote messages do a model's work, without a key, unless --live asks the models of your settings.
    """
    if url is None and data is None:
        data = resolve(None, None).embedded_data_dir.parent / "demo"
    if everything:
        from memory_sql.cli.tour import tour

        return tour(url, data, as_json, live=live)
    started, page, clock, settings = time.monotonic(), Page(quiet=as_json), Clock(), shown_with(url, data, live=live)
    page.say(
        "Mia and Jonas build a booking page for a harbour. Ada is their agent; memory_sql is her memory.", indent=""
    )
    page.dim(f"{model_text(settings)}\n{named_database(settings)} …", indent="")
    shown = run(url, data, lambda memory: _story(memory, page, clock), clock=clock, settings=settings)
    shown.seconds = round(time.monotonic() - started, 2)
    if as_json:
        output.json_line(asdict(shown))
    _finish(page, shown, option(url, data))
    return None


async def _story(memory: Memory, page: Page, clock: Clock) -> Shown:
    shown = Shown()
    await _empty(memory)
    learnt = await _conversations(memory, page, clock, shown)
    if not learnt:
        _result(page, False, "", "No observation was formed, so there is nothing to show.")
        return shown
    await _prompt(memory, page, shown)
    await _contradiction(memory, page, learnt, shown)
    await _members(memory, page, learnt, shown)
    await _tool(memory, page)
    await _forgetting(memory, page, shown)
    await _verify(memory, page, shown)
    return shown


async def _empty(memory: Memory) -> None:
    """Forgets what an earlier demo has left."""
    from memory_sql.domain.selection import Selection

    with suppress(NotFoundError):  # there was none
        await memory.forget(Selection(everything=True), agent_id=AGENT)


async def _conversations(memory: Memory, page: Page, clock: Clock, shown: Shown) -> list[Observation]:
    page.step("Conversations: each message is stored once, and observations are formed from them")
    learnt: list[Observation] = []
    for talk in _talks(memory):
        clock.now = max(message.created_at for message in talk.messages if message.created_at)
        await memory.add(
            talk.messages,
            agent_id=AGENT,
            user_id=talk.user_id,
            conversation_id=talk.conversation_id,
            group_ids=talk.group_ids,
        )
        formed, failed = await form_each(memory, AGENT, [talk.conversation_id])
        found = [observation for result in formed for observation in result.observations]
        with_whom = f"group {talk.group_ids[0]}" if talk.group_ids else f"{talk.user_id.capitalize()} and Ada alone"
        count = output.many(len(found), "observation")
        page.say(f"{talk.conversation_id}  {len(talk.messages)} messages → {count}  ({with_whom})")
        learnt += found
        shown.failed |= failed
        shown.conversations += 1
        shown.messages += len(talk.messages)
    shown.observations = len(learnt)
    for observation in _with(ABOUT, learnt):
        page.say(output.observation_line(observation), indent="     ", hanging="  ")
    return learnt


def _talks(memory: Memory) -> list[Conversation]:
    from memory_sql.cli.files import Defaults, read_file

    file = read_file(str(example()), Defaults(max_characters=memory.settings.message_max_characters))
    return [talk for talk in file.conversations if talk.conversation_id in CONVERSATIONS]


def _with(word: str, observations: list[Observation]) -> list[Observation]:
    return [observation for observation in observations if word in observation.content.casefold()]


async def _prompt(memory: Memory, page: Page, shown: Shown) -> None:
    page.step(f"What goes into Ada's prompt when Mia writes “{ASKED}”")
    scopes = [scope for user in PEOPLE for scope in await memory.scopes.list(agent_id=AGENT, user_id=user)]
    pending = dict.fromkeys(scope.ref.id for scope in scopes if scope.pending)
    _, failed = await consolidate_each(memory, AGENT, list(pending))
    shown.failed |= failed
    context = await memory.context(agent_id=AGENT, user_id=PEOPLE[0], message=ASKED)
    for line in context.xml.splitlines():
        page.say(line, indent="     ", hanging="  ", style="green" if ABOUT in line.casefold() else "")
    page.say(f"About {context.tokens} tokens; no model was asked for it.")


async def _contradiction(memory: Memory, page: Page, learnt: list[Observation], shown: Shown) -> None:
    page.step("A newer fact contradicted an older one and superseded it: the text has what is true now")
    for old in learnt:
        owner = old.scope.owner_id if old.scope.kind == "individual" else PEOPLE[0]
        now = await memory.observations.get(old.id, agent_id=AGENT, user_id=owner or PEOPLE[0])
        if now.superseded_by:
            shown.superseded[now.id] = now.superseded_by
            page.say(f"- {now.id}  {output.flat(now.content)}  (superseded by {now.superseded_by})", style="red")
    if not shown.superseded:
        page.say("The model found no contradiction.")


async def _group(memory: Memory) -> Scope:
    scopes = await memory.scopes.list(agent_id=AGENT, user_id=PEOPLE[0])
    return next(scope for scope in scopes if scope.ref.kind == "group")


async def _members(memory: Memory, page: Page, learnt: list[Observation], shown: Shown) -> None:
    page.step("What a member tells the agent in private, other members don't see")
    private = _with(PRIVATE, learnt)
    for observation in private:
        page.say(f"{observation.id}  {output.flat(observation.content)}", hanging="  ")
    if not private:
        shown.failed["privacy"] = "nothing was formed of what is private, so nothing was shown"
        _result(page, False, "", "Nothing was formed of it.")
        return
    for user in reversed(PEOPLE):
        told = "; ".join([f"“{word}” finds {await _found(memory, word, user)}" for word in (ABOUT, PRIVATE)])
        page.say(f"{user.capitalize():<6} searches: {told}", indent="     ")
    context = await memory.context(agent_id=AGENT, user_id=PEOPLE[0])
    shown.private = await _found(memory, PRIVATE, PEOPLE[0]) == "nothing" and PRIVATE not in context.xml.casefold()
    _result(page, shown.private, "The word isn't in Mia's context either.", "Mia can see the word.")


async def _found(memory: Memory, word: str, user: str) -> str:
    """What has the word: a search finds what is near in meaning as well."""
    found = await memory.search(word, agent_id=AGENT, user_id=user)
    said = sum(word in hit.message.content.casefold() for hit in found.messages)
    ids = [observation.id for observation in _with(word, [hit.observation for hit in found.results])]
    return ", ".join([*ids, *([output.many(said, "message")] if said else [])]) or "nothing"


async def _tool(memory: Memory, page: Page) -> None:
    """Whose memory it is, the host says; the model gives the words."""
    from memory_sql.tools import MemoryTools

    page.step("The agent's model can ask for itself: memory as tools (docs/tools.md), here for Mia")
    tools, query = MemoryTools(memory, agent_id=AGENT, user_id=PEOPLE[0]), {"query": ABOUT, "limit": 1}
    page.say(f'recall({{"query": "{ABOUT}", "limit": 1}})', style="bold")
    for line in (await tools.call("recall", query)).text.splitlines():
        page.say(output.flat(line), indent="     ", hanging="  ")


async def _forgetting(memory: Memory, page: Page, shown: Shown) -> None:
    from memory_sql.domain.selection import Selection

    page.step("A sentence is forgotten: its observation, its message, the answer, and its place in the text")
    before = await _group(memory)
    conversation, message = FORGOTTEN
    page.say(f"memory-sql forget --conversation {conversation} --message {message} --agent {AGENT}", style="bold")
    selection = Selection(conversation_id=conversation, message_id=message)
    receipt = shown.forgotten = await memory.forget(selection, agent_id=AGENT)
    await consolidate_each(memory, AGENT, list(receipt.withheld))
    after = await _group(memory)
    gone = ", ".join(output.many(receipt.counts[f"{what}s"], what) for what in ("message", "observation"))
    page.say(f"forgotten: {gone}; text of {after.ref}, version {before.version} → {after.version}:")
    kept = set((after.consolidation or "").splitlines())
    for line in (before.consolidation or "").splitlines():
        if line not in kept:
            page.say(f"- {line}", indent="     ", hanging="  ", style="red")
    total, shown.left = await _kept(memory)
    if not receipt.counts["observations"]:
        shown.failed["forgetting"] = "no observation was formed of the sentence, so nothing was shown"
        _result(page, False, "", "No observation was formed of it.")
        return
    good = f"Of {total} records that are still stored about Mia and Jonas, none contains “{WORD}”."
    _result(page, not shown.left, good, f"{shown.left} of {total} records still contain “{WORD}”.")


async def _kept(memory: Memory) -> tuple[int, int]:
    """How many records an export of everybody has, and how many of them contain the word."""
    total = left = 0
    for user in PEOPLE:
        async with aclosing(memory.people.export(agent_id=AGENT, user_id=user)) as lines:
            async for line in lines:
                total += 1
                left += WORD in line.model_dump_json().casefold()
    return total, left


async def _verify(memory: Memory, page: Page, shown: Shown) -> None:
    page.step("memory-sql admin verify: checks every invariant on the live database")
    shown.violations = tuple(await memory.admin.verify())
    if shown.violations:
        _result(page, False, "", f"{len(shown.violations)} violations.")
    else:
        _result(page, not shown.problems(), "Everything holds.", "The invariants hold; not all of the above does.")


def _result(page: Page, is_good: bool, good: str, bad: str) -> None:
    page.say(good if is_good else bad, style="green" if is_good else "bold red")


def _finish(page: Page, shown: Shown, database: str) -> None:
    page.say(f"\nIt took {shown.seconds:.1f} s. Try next:", indent="")
    tried = ("memory-sql demo --all", "memory-sql inspect")
    page.commands(f"   {runnable(command, database)}" for command in tried)
    problems: dict[str, Any] = shown.problems()
    output.complain_of(problems)
    if problems:
        raise typer.Exit(1)
