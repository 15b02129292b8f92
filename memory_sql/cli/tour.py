"""`memory-sql demo --all`: every step, with the whole example."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from memory_sql.cli import output
from memory_sql.cli.batches import consolidate_each, form_each, model_of, refused
from memory_sql.cli.options import named_database, run
from memory_sql.cli.page import Clock, Page, example, model_text, option, runnable, shown_with

if TYPE_CHECKING:
    from memory_sql.cli.files import Conversation, ConversationFile
    from memory_sql.config import Settings
    from memory_sql.domain.observations import Observation
    from memory_sql.domain.reading import Context, SearchResult
    from memory_sql.domain.results import AddResult, Stats
    from memory_sql.domain.scopes import Scope
    from memory_sql.memory import Memory

AGENT = "ada"
ASKS = "mia"
PRIVATE_OF = "jonas"
PRIVATE_WORD = "cardiolog"
PRIVATE_MESSAGES = frozenset({"jonas-2026-03-04-07", "jonas-2026-03-18-07"})
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(slots=True)
class Story:
    """The results, for the end of the page and for --json."""

    added: list[AddResult] = field(default_factory=list)
    formed: int = 0
    observations: int = 0
    consolidated: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    hits: tuple[str, ...] = ()
    context: Context | None = None
    private: bool = True
    stats: Stats | None = None

    @property
    def accepted(self) -> int:
        return sum(result.accepted for result in self.added)

    def as_json(self, seconds: float) -> dict[str, Any]:
        return {
            "agent": AGENT,
            "conversations": len(self.added),
            "messages": sum(result.accepted + result.duplicates for result in self.added),
            "accepted": self.accepted,
            "duplicates": sum(result.duplicates for result in self.added),
            "formed": self.formed,
            "observations": self.observations,
            "consolidated": self.consolidated,
            "refused": self.refused,
            "failed": self.failed,
            "model": self.model,
            "hits": self.hits,
            "context": self.context,
            "private": self.private,
            "stats": self.stats,
            "seconds": round(seconds, 2),
        }


def tour(url: str | None, data: Path | None, as_json: bool, *, live: bool) -> None:
    """Shows each step on the whole example. The exit code is 1 if a step failed."""
    from memory_sql.cli.files import Defaults, read_file

    started = time.monotonic()
    page, clock, settings = Page(quiet=as_json), Clock(), shown_with(url, data, live=live)
    file = read_file(str(example()), Defaults(max_characters=settings.message_max_characters))
    page.say(
        f"memory_sql: {file.messages} messages between {' and '.join(map(str.capitalize, _users(file)))} and their agent "
        f"{AGENT.capitalize()}, and what memory makes of them.",
        indent="",
    )
    page.step("The database")
    page.say(f"{named_database(settings)} …")
    story = run(url, data, lambda memory: _tell(memory, page, clock, file, started), clock=clock, settings=settings)
    seconds = time.monotonic() - started
    if as_json:
        output.json_line(story.as_json(seconds))
    _finish(page, story, seconds, option(url, data))


def _users(file: ConversationFile) -> list[str]:
    return sorted({m.user_id for talk in file.conversations for m in talk.messages if m.user_id})


async def _tell(memory: Memory, page: Page, clock: Clock, file: ConversationFile, started: float) -> Story:
    story = Story()
    page.say(f"ready after {time.monotonic() - started:.1f} s; the schema `memory` is up to date")
    await _add(memory, page, clock, file.conversations, story)
    await _form(memory, page, file, story)
    await _consolidate(memory, page, file, story)
    question = file.conversations[-1].messages[-1].content
    await _ask(memory, page, question, file, story)
    await _context(memory, page, story)
    story.stats = await memory.admin.stats(agent_id=AGENT)
    return story


async def _add(memory: Memory, page: Page, clock: Clock, conversations: Sequence[Conversation], story: Story) -> None:
    page.step("Messages: `add` stores each once and says whether the conversation is due")
    for talk in conversations:
        clock.now = max((m.created_at for m in talk.messages if m.created_at), default=clock.now)
        result = await memory.add(
            talk.messages,
            agent_id=AGENT,
            user_id=talk.user_id,
            conversation_id=talk.conversation_id,
            group_ids=talk.group_ids,
        )
        story.added.append(result)
        group = f", group {', '.join(talk.group_ids)}" if talk.group_ids else ""
        known = f", {result.duplicates} known already" if result.duplicates else ""
        page.say(f"{result.conversation_id:<18} {result.accepted} new{known}{group}")
        if result.accepted:
            page.say(_trigger(memory.settings, talk, result), indent=" " * 22, hanging="  ")


def _trigger(settings: Settings, talk: Conversation, result: AddResult) -> str:
    """Why the conversation is due, or what it waits for."""
    from memory_sql.formation.intake import signal_in

    signals = [(m.id, signal) for m in talk.messages if (signal := signal_in(m.role, m.content))]
    match result.trigger:
        case "signal":
            message_id, signal = signals[0] if signals else ("?", "?")
            more = f" (and {len(signals) - 1} more)" if len(signals) > 1 else ""
            return f"due: signal “{signal}” in {message_id}{more}"
        case "messages":
            return f"due: {settings.formation_messages} messages"
        case "tokens":
            return f"due: {settings.formation_tokens:,} weighted tokens"
        case None:
            is_short = len(talk.messages) < settings.formation_min_messages
            minutes = settings.formation_rest_minutes if is_short else settings.formation_cold_minutes
            return f"not due: no signal; waits for {minutes:g} minutes of silence"
        case other:
            return f"due: {other}"


async def _form(memory: Memory, page: Page, file: ConversationFile, story: Story) -> None:
    page.step("Observations: `form` asks the language model, once per conversation, what to keep and where")
    page.say(model_text(memory.settings))
    formed, failed = await form_each(memory, AGENT, [talk.conversation_id for talk in file.conversations])
    formed = [result for result in formed if result.messages]
    story.failed |= failed
    story.refused, story.model = refused(formed), model_of(formed)
    story.formed = sum(result.messages for result in formed)
    story.observations = sum(len(result.observations) for result in formed)
    if formed:
        page.say(f"{story.formed} messages of {len(formed)} conversations → {story.observations} observations")
    elif not failed:
        page.say("nothing to form: every message was formed before. What is known:")
    for name, reason in failed.items():
        page.say(f"{name} failed, its messages stay: {reason}", hanging="  ")
    for reason, count in story.refused.items():
        page.say(f"refused: {count} × {reason}")
    known = await _observations(memory, _users(file))
    if not known and not failed:
        story.failed["formation"] = "no observation was formed"
    _list_by_scope(page, known)


async def _observations(memory: Memory, users: Iterable[str]) -> list[Observation]:
    """The observations of all users, in the order of scopes and numbers."""
    from memory_sql.domain.ids import parse_observation_id

    found: dict[tuple[int, int], Observation] = {}
    for user in users:
        for observation in await memory.observations.list(agent_id=AGENT, user_id=user, limit=1000):
            found[parse_observation_id(observation.id)] = observation
    return [found[key] for key in sorted(found)]


def _list_by_scope(page: Page, observations: Iterable[Observation]) -> None:
    scope = None
    for o in observations:
        if o.scope != scope:
            scope = o.scope
            page.say(str(scope), indent="     ")
        page.say(
            f"{o.id:<6} {output.flat(o.content)}  ←{_NO_BREAK}{', '.join(o.source.message_ids)}",
            indent="       ",
            hanging=" " * 7,
        )


async def _consolidate(memory: Memory, page: Page, file: ConversationFile, story: Story) -> None:
    page.step("Texts: `consolidate` rewrites each scope's text with its pending observations")
    scopes = await _scopes(memory, file)
    done, failed = await consolidate_each(memory, AGENT, [scope.ref.id for scope in scopes if scope.pending])
    story.failed |= failed
    story.consolidated = len(done)
    absorbed = {result.scope.id: result.absorbed for result in done}
    for scope in await _scopes(memory, file):
        if scope.consolidation:
            new = absorbed.get(scope.ref.id)
            news = f"{output.many(new, 'observation')} absorbed now" if new else "nothing new"
            page.say(f"{scope.ref}, version {scope.version}, {news}", indent="     ")
            page.say(scope.consolidation, indent="       ", hanging="  ")


async def _scopes(memory: Memory, file: ConversationFile) -> list[Scope]:
    found = [s for user in _users(file) for s in await memory.scopes.list(agent_id=AGENT, user_id=user)]
    return list({scope.ref.id: scope for scope in found}.values())


async def _ask(memory: Memory, page: Page, question: str, file: ConversationFile, story: Story) -> None:
    page.step(f"A question by {ASKS.capitalize()}: do single observations answer it, in addition to the texts?")
    page.say(f"“{question}”", hanging=" ")
    conversation = file.conversations[-1].conversation_id
    story.context = await memory.context(agent_id=AGENT, user_id=ASKS, conversation_id=conversation, message=question)
    if not story.context.fired:
        page.say("no: nothing was found that answers it")
        return
    found = await memory.search(question, agent_id=AGENT, user_id=ASKS, conversation_id=conversation)
    story.hits = tuple(hit.observation.id for hit in found.results)
    page.say(f"yes: {story.context.reason}. Looked for: {', '.join(found.terms)}. Found, best first:")
    _list_hits(page, found)


def _list_hits(page: Page, found: SearchResult) -> None:
    for hit in found.results:
        page.say(f"{hit.score:.2f}  {output.observation_line(hit.observation)}", indent="     ", hanging=" " * 6)


async def _context(memory: Memory, page: Page, story: Story) -> None:
    context = story.context
    assert context is not None
    page.step(f"The prompt: the context for {ASKS.capitalize()}, about {context.tokens} tokens (lines wrapped here)")
    page.say(context.xml, indent="     ", hanging="  ")
    visible = await memory.observations.list(agent_id=AGENT, user_id=ASKS, limit=1000)
    leaked = [o.id for o in visible if PRIVATE_MESSAGES & set(o.source.message_ids)]
    own = await memory.context(agent_id=AGENT, user_id=PRIVATE_OF)
    story.private = not leaked and PRIVATE_WORD not in context.xml.casefold()
    whose, who = PRIVATE_OF.capitalize(), ASKS.capitalize()
    page.say("")
    if story.private:
        own_too = "it is in his own" if PRIVATE_WORD in own.xml.casefold() else "nothing was remembered of it"
        page.say(f"{whose}'s private matter (a {PRIVATE_WORD}ist) isn't in {who}'s context; {own_too}.")
    else:
        page.say(f"{who} can see {whose}'s private matter: {', '.join(leaked) or 'in a text'}.")
        story.failed["privacy"] = "the language model put something private into a shared scope"


def _finish(page: Page, story: Story, seconds: float, where: str) -> None:
    stats = story.stats
    assert stats is not None
    page.step("Done" if not story.failed else "Done, but not everything")
    if not (story.accepted or story.formed or story.failed):
        page.say("Everything was there already; nothing was added twice.")
    page.say(
        f"In the database now: {output.many(stats.messages, 'message')}, {output.many(stats.observations, 'observation')}, "
        f"{output.many(stats.consolidations, 'version')} of texts. It took {seconds:.1f} s."
    )
    page.say("Try next:")
    tried = (
        *((f"memory-sql observation get {hit}", f"--user {ASKS}") for hit in story.hits[:1]),
        ('memory-sql search "ship date"', f"--user {PRIVATE_OF}"),
        ('memory-sql observe "Mia is allergic to nuts."', f"--user {ASKS}"),
        ("memory-sql context", f'--user {ASKS} --message "What did we decide about the map?"'),
    )
    page.commands(f"     {runnable(command, f'--agent {AGENT} {whose}', where)}" for command, whose in tried)
    if where.startswith("--data"):
        page.say("And to keep the server running, so that commands are faster:")
        page.commands([f"     {runnable('memory-sql db start', where)}"])
    output.complain_of(story.failed)
    if story.failed:
        raise typer.Exit(1)
