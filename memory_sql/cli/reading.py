"""Commands that read: context, digest, search, scopes, list, messages, show, history, diff, stats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memory_sql.arguments import format_of
from memory_sql.cli import output
from memory_sql.cli.options import (
    Agent,
    AsJson,
    AsOf,
    Data,
    InSession,
    Limit,
    ScopeId,
    Url,
    User,
    moment,
    run,
)
from memory_sql.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from memory_sql.config import Assembly
    from memory_sql.domain.messages import RetainedMessage
    from memory_sql.domain.observations import Observation
    from memory_sql.domain.reading import Explanation, Hit, MessageHit, RetrievalStats, SearchResult
    from memory_sql.domain.results import Stats
    from memory_sql.domain.scopes import Consolidation, Diff, Scope
    from memory_sql.memory import Memory


def context(
    agent: Agent,
    user: User,
    session: InSession = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="What the user has just said.")
    ] = None,
    retrieve: Annotated[
        bool | None,
        typer.Option(
            "--retrieve/--no-retrieve",
            help="Add the observations that match the message, always or never; else where the message asks for them.",
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", help="At most that many tokens of XML; 4 or more.")
    ] = None,
    layout: Annotated[str | None, typer.Option("--format", metavar="NAME", help="standard or legacy.")] = None,
    as_of: AsOf = None,
    assembly: Annotated[
        str | None,
        typer.Option("--assembly", metavar="NAME", help="eden, digest or both; else what the agent's settings say."),
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints what goes into the agent's prompt.

    \b
    memory-sql context --agent ada --user mia --message "What did I say about the harbour master?"

    It is XML, <MemoryContext>: the texts that the user may see, what is pending, and single observations where the
    message asks for them. With --assembly, or the setting of that name, it is the digest instead, or both. No language
    model is asked.
    """
    found = run(
        url,
        data,
        lambda memory: memory.context(
            agent_id=agent,
            user_id=user,
            session_id=session,
            message=message,
            retrieve=retrieve,
            budget_tokens=budget,
            format=format_of(layout),
            as_of=moment("--as-of", as_of),
            assembly=cast("Assembly | None", assembly),
        ),
    )
    output.one(found, str, as_json)


def digest(
    agent: Agent,
    user: User,
    session: InSession = None,
    query: Annotated[str | None, typer.Option("--query", metavar="TEXT", help="Words to look for.")] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="KIND.DIMENSION=N",
            help="total.items=5, fact.characters=400, note.tokens=90; repeatable.",
        ),
    ] = None,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints the digest: single observations within a budget, each with its id and source.

    \b
    memory-sql digest --agent ada --user mia
    memory-sql digest --agent ada --user mia --query "harbour master" --budget total.items=5 --budget fact.items=0

    What the agent's settings pin comes first, then what holds any of the words. With neither, the most important and then
    newest. Kinds are fact, note, procedure and episode; dimensions are items, characters and tokens.
    """
    limits = _budgets(budgets or ())
    found = run(
        url,
        data,
        lambda memory: memory.digest(
            agent_id=agent,
            user_id=user,
            session_id=session,
            query=query,
            budgets=limits,
            as_of=moment("--as-of", as_of),
        ),
    )
    output.one(found, lambda digest: digest.text or "nothing to show", as_json)


def _budgets(given: Iterable[str]) -> dict[str, dict[str, int]]:
    """`fact.items=3` for each; which kinds and dimensions there are `Memory.digest` knows."""
    budgets: dict[str, dict[str, int]] = {}
    for text in given:
        found = re.fullmatch(r"([a-z]+)\.([a-z]+)=(\d{1,9})", text, re.ASCII)
        if found is None:
            raise InputError("--budget takes KIND.DIMENSION=N, such as fact.items=3")
        budgets.setdefault(found[1], {})[found[2]] = int(found[3])
    return budgets


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words to look for; any of them counts.")],
    agent: Agent,
    user: User,
    session: InSession = None,
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="N", help="At most that many, 1 to 100.")] = None,
    messages: Annotated[
        int | None,
        typer.Option("--messages", metavar="N", help="At most that many messages, 0 to 100; else as --top-k."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each score is made of.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say also how the database went about it.")] = False,
    as_of: AsOf = None,
    semantic: Annotated[
        bool | None,
        typer.Option(
            "--semantic/--words", help="Also by meaning, or by words alone; else by meaning where that is on."
        ),
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Finds observations, and messages that are still kept, by their words; each best first. Observations also by their
    meaning, where vectors are on.

    \b
    memory-sql search "harbour master" --agent ada --user mia
    memory-sql search '"harbour master" -boat from:jonas after:2026-03 tag:trip' --agent ada --user mia --explain
    """
    found = run(
        url,
        data,
        lambda memory: memory.search(
            query,
            agent_id=agent,
            user_id=user,
            session_id=session,
            top_k=top_k,
            messages=messages,
            as_of=moment("--as-of", as_of),
            explain=explain,
            plan=plan,
            semantic=semantic,
        ),
    )
    if found.notice:
        output.complain(found.notice)
    looked_for = ", ".join(found.terms)
    nothing = f"nothing found for: {looked_for}" if looked_for else "the query holds no word to look for"
    output.rows(found.results, hit_line, as_json, "" if found.messages else nothing)
    for hit in found.messages:
        output.one(hit, message_hit_line, as_json)
    if not as_json:
        for line in _about_the_query(found):
            print(line)


def hit_line(hit: Hit) -> str:
    return f"{hit.score:.2f}  {output.observation_line(hit.observation)}{_explained(hit.explanation)}"


def message_hit_line(hit: MessageHit) -> str:
    return f"{hit.score:.2f}  {message_line(hit.message)}{_explained(hit.explanation)}"


def _explained(told: Explanation | None) -> str:
    if told is None:
        return ""
    parts = ", ".join(f"{name} {value:.2f}" for name, value in told.parts.items())
    matched = f"matched {', '.join(map(output.plain, told.matched))}; " if told.matched else ""
    return f"\n      {matched}admitted by {told.admitted}; {parts}"


def _about_the_query(found: SearchResult) -> Iterator[str]:
    if found.left_out:
        yield f"not looked for: {', '.join(f'{word} ({why})' for word, why in found.left_out.items())}"
    yield from found.plan


def scopes(
    agent: Agent, user: User, session: InSession = None, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists the scopes that the user may see.

    \b
    memory-sql scopes --agent ada --user mia
    """
    found = run(url, data, lambda memory: memory.scopes.list(agent_id=agent, user_id=user, session_id=session))
    output.rows(found, scope_line, as_json, f"no scope of {agent} yet that {user} may see")


def scope_line(scope: Scope) -> str:
    text = f"text v{scope.version} of {output.minute(scope.consolidated_at)}" if scope.version else "no text yet"
    return (
        f"{scope.ref.id}  {scope.ref}  {output.many(scope.observations, 'observation')}, {scope.pending:,} pending, "
        f"{text}{'' if scope.is_active else ', switched off'}"
    )


def list_observations(
    agent: Agent,
    user: User,
    scope_id: ScopeId = None,
    limit: Limit = 50,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists observations, newest first.

    \b
    memory-sql list --agent ada --user mia --limit 10
    """
    scope = None if scope_id is None else scope_id
    found = run(
        url,
        data,
        lambda memory: memory.observations.list(
            agent_id=agent, user_id=user, scope_id=scope, limit=limit, as_of=moment("--as-of", as_of)
        ),
    )
    output.rows(found, output.observation_line, as_json, "no observations")


def messages(
    agent: Agent,
    user: User,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this conversation.")] = None,
    of: Annotated[
        str | None, typer.Option("--of", metavar="ID", help="Only what this observation comes from, oldest first.")
    ] = None,
    limit: Limit = 50,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the messages that are still kept, newest first.

    \b
    memory-sql messages --agent ada --user mia --session monday
    memory-sql messages --agent ada --user mia --of o12-3

    Of conversations that the user took part in. How long texts are kept is the setting message_retention_days.
    """
    if session is not None and of is not None:
        raise InputError("say either --session or --of")

    async def read(memory: Memory) -> Sequence[RetainedMessage]:
        if of is not None:
            return await memory.observations.sources(of, agent_id=agent, user_id=user, limit=limit)
        return await memory.conversations.messages(agent_id=agent, user_id=user, session_id=session, limit=limit)

    output.rows(run(url, data, read), message_line, as_json, "no messages")


def message_line(message: RetainedMessage) -> str:
    m = message
    who = m.speaker or m.user_id or m.role
    return output.plain(f"{m.session_id}  {m.id}  {output.minute(m.said_at)}  {who}: {output.flat(m.content)}")


def show(
    key: Annotated[str, typer.Argument(metavar="ID", help="An observation, o12-3, or a scope, s12.")],
    agent: Agent,
    user: User,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows an observation and its source, or a scope.

    \b
    memory-sql show o12-3 --agent ada --user mia
    memory-sql show s12 --agent ada --user mia
    """
    if key.startswith("s"):
        scope = run(url, data, lambda memory: _scope(memory, agent, user, key))
        output.one(scope, _scope_text, as_json)
    else:
        observation = run(url, data, lambda memory: memory.observations.get(key, agent_id=agent, user_id=user))
        output.one(observation, _observation_text, as_json)


async def _scope(memory: Memory, agent: str, user: str, scope_id: str) -> Scope:
    for scope in await memory.scopes.list(agent_id=agent, user_id=user):
        if scope.ref.id == scope_id:
            return scope
    raise NotFoundError("scope", scope_id)


def _scope_text(scope: Scope) -> str:
    return "\n".join((scope_line(scope), *([output.indented(scope.consolidation)] if scope.consolidation else [])))


def _observation_text(observation: Observation) -> str:
    o, source = observation, observation.source
    run_id = None if source.run_id is None else str(source.run_id)
    facts = {
        "observed": output.minute(o.observed_at),
        "stored": output.minute(o.created_at),
        "status": f"{o.status}, {'pending' if o.pending else 'consolidated'}",
        "source": source.kind,
        "session": source.session_id,
        "messages": ", ".join(source.message_ids),
        "speaker": source.speaker,
        "run": run_id,
        "sensitivity": o.sensitivity,
        "tags": ", ".join(o.tags),
        "metadata": ", ".join(f"{key}={value}" for key, value in o.metadata.items()),
    }
    lines = [f"{name:<12} {output.flat(value)}" for name, value in facts.items() if value]
    return "\n".join((f"{o.id}  {o.scope}", output.indented(o.content, hanging=""), "", *lines))


def history(
    agent: Agent,
    user: User,
    scope_id: ScopeId = None,
    limit: Limit = 50,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the versions of scopes' texts, newest first.

    \b
    memory-sql history --agent ada --user mia --scope-id s12
    """
    scope = None if scope_id is None else scope_id
    found = run(
        url,
        data,
        lambda memory: memory.scopes.history(
            agent_id=agent, user_id=user, scope_id=scope, limit=limit, as_of=moment("--as-of", as_of)
        ),
    )
    output.rows(found, version_text, as_json, "no text has been written yet")


def version_text(version: Consolidation) -> str:
    v = version
    absorbed = f"observations {v.from_seq + 1}–{v.to_seq}" if v.to_seq > v.from_seq else "no new observations"
    head = (
        f"{v.scope.id} v{v.version}  {v.scope}  {output.minute(v.created_at)}  {v.words} words of {absorbed}, "
        f"{v.reason} ({v.model or 'no model'}){'' if v.live else ', undone'}"
    )
    return f"{head}\n{output.indented(v.content)}"


def diff(
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="12 or s12, as `scopes` shows it.")],
    agent: Agent,
    user: User,
    from_version: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="V", help="This version of its text, or that of a time; else the one before --to."
        ),
    ] = None,
    to_version: Annotated[str | None, typer.Option("--to", metavar="V", help="And this one; else the newest.")] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows what changed in a scope's text between two versions.

    \b
    memory-sql diff s12 --agent ada --user mia
    memory-sql diff s12 --agent ada --user mia --from 3 --to 7
    memory-sql diff s12 --agent ada --user mia --from 2026-03-02T00:00:00Z

    Sentence by sentence: - is gone, + has come. Version 0 is before there was a text.
    """
    found = run(
        url,
        data,
        lambda memory: memory.scopes.diff(
            agent_id=agent,
            user_id=user,
            scope_id=scope,
            from_version=_version("--from", from_version),
            to_version=_version("--to", to_version),
        ),
    )
    output.one(found, diff_text, as_json)


def _version(option: str, text: str | None) -> int | datetime | None:
    """`7` and `v7` are version 7, anything else a time."""
    digits = (text or "").removeprefix("v")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else moment(option, text)


def diff_text(diff: Diff) -> str:
    head = [f"--- {diff.scope.id} v{diff.from_version}", f"+++ {diff.scope.id} v{diff.to_version}"]
    mark = {"kept": " ", "removed": "-", "added": "+"}
    lines = [f"{mark[sentence.change]} {output.flat(sentence.text)}" for sentence in diff.sentences]
    what = {"absorbed": diff.absorbed, "given back": diff.given_back}
    return "\n".join([*head, *lines, *(f"{name}: {', '.join(ids)}" for name, ids in what.items() if ids)])


def stats(agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Counts messages, observations, runs, tokens.

    \b
    memory-sql stats --agent ada
    """
    found = run(url, data, lambda memory: memory.admin.stats(agent_id=agent))
    output.one(found, stats_text, as_json)


def stats_text(stats: Stats) -> str:
    s = stats
    facts = {
        "sessions": f"{s.sessions:,}, {s.due_sessions:,} due",
        "messages": f"{s.messages:,}, {s.unformed_messages:,} not formed yet",
        "observations": f"{s.observations:,}, {s.pending:,} pending",
        "scopes": _counts(s.scopes) + (f"; {s.due_scopes:,} due" if s.due_scopes else ""),
        "texts": f"{s.consolidations:,} versions",
        "propagated": f"{output.many(s.propagated, 'observation')}{_propagations(s)}",
        "runs": _counts(s.runs),
        "tokens": f"{s.input_tokens:,} in, {s.output_tokens:,} out",
        "queries": _queries(s.retrieval),
        "vectors": s.vectors,
    }
    if s.vectors_advised:
        facts["vectors"] += f"; advised for {', '.join(s.vectors_advised)}"
    return "\n".join(f"{name:<13} {value}" for name, value in facts.items())


def _propagations(stats: Stats) -> str:
    due = f", {output.many(stats.due_propagations, 'scope')} due" if stats.due_propagations else ""
    return due + (f", {output.many(stats.held, 'claim')} held" if stats.held else "")


def _queries(retrieval: RetrievalStats) -> str:
    r = retrieval
    took = "" if r.mean_ms is None else f", {r.mean_ms:.1f} ms in the mean, {r.slowest_ms:.1f} at worst"
    return f"{r.queries:,}, {r.fired:,} searched, {r.without_hit:,} of these found nothing{took}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
