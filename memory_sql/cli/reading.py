"""Reading: context, digest, search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, AsOf, Data, InConversation, Url, User, moment, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.config import Assembly
    from memory_sql.domain.reading import Decision, Explanation, Hit, MessageHit, SearchResult


def context(
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="The user's latest message.")] = None,
    retrieve: Annotated[
        bool | None,
        typer.Option(
            "--retrieve/--no-retrieve",
            help="Add observations that match the message, always or never; default: if they answer it.",
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", help="At most this many tokens of XML; 4 or more.")
    ] = None,
    layout: Annotated[str | None, typer.Option("--format", metavar="NAME", help="standard or legacy.")] = None,
    as_of: AsOf = None,
    assembly: Annotated[
        str | None,
        typer.Option("--assembly", metavar="NAME", help="eden, digest or both; default: the agent's setting."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print on stderr why what was found is shown or not.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints the context for the agent's prompt.

    \b
    memory-sql context --agent ada --user mia --message "What did I say about the harbour master?"

    It is XML, <MemoryContext>: the texts that the user may see, pending observations, and single observations if they
    answer the message. With --assembly, or the setting of that name, it is the digest instead, or both. No language
    model is called.
    """
    from memory_sql.domain.arguments import format_of

    found = run(
        url,
        data,
        lambda memory: memory.context(
            agent_id=agent,
            user_id=user,
            conversation_id=conversation,
            message=message,
            retrieve=retrieve,
            budget_tokens=budget,
            format=format_of(layout),
            as_of=moment("--as-of", as_of),
            assembly=cast("Assembly | None", assembly),
        ),
    )
    output.one(found, str, as_json)
    if found.notice:
        typer.echo(f"memory-sql: {found.notice}", err=True)
    if explain:
        typer.echo(_decision(found.decision), err=True)


def _decision(decision: Decision | None) -> str:
    if decision is None:
        return "there was no search"
    d = decision
    recalls = f"; it asks for what was said ({d.recalls})" if d.recalls else ""
    return (
        f"{d.lines or 'no'} lines: the best hit has a strength of {d.strength:.2f} and covers {d.covered:.0%} of the message;"
        f" chance reaches {d.noise:.2f}{recalls}"
    )


def digest(
    agent: Agent,
    user: User,
    conversation: InConversation = None,
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

    Observations that the agent's settings pin come first, then those with any of the words. With neither, the most important
    ones, then the newest. Kinds are fact, note, procedure and episode; dimensions are items, characters and tokens.
    """
    limits = _budgets(budgets or ())
    found = run(
        url,
        data,
        lambda memory: memory.digest(
            agent_id=agent,
            user_id=user,
            conversation_id=conversation,
            query=query,
            budgets=limits,
            as_of=moment("--as-of", as_of),
        ),
    )
    if found.notice:
        output.complain(found.notice)
    output.one(found, lambda digest: digest.text or "nothing to show", as_json)


def _budgets(given: Iterable[str]) -> dict[str, dict[str, int]]:
    """Parses `fact.items=3`. `Memory.digest` checks the kinds and dimensions."""
    budgets: dict[str, dict[str, int]] = {}
    for text in given:
        found = re.fullmatch(r"([a-z]+)\.([a-z]+)=(\d{1,9})", text, re.ASCII)
        if found is None:
            raise InputError("--budget takes KIND.DIMENSION=N, such as fact.items=3")
        of_kind = budgets.setdefault(found[1], {})
        if found[2] in of_kind:
            raise InputError(f"--budget says {found[1]}.{found[2]} twice")
        of_kind[found[2]] = int(found[3])
    return budgets


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words to look for; any of them may match.")],
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="N", help="At most this many, 1 to 100.")] = None,
    messages: Annotated[
        int | None,
        typer.Option("--messages", metavar="N", help="At most this many messages, 0 to 100; default: --top-k."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Also show the query plan.")] = False,
    as_of: AsOf = None,
    semantic: Annotated[
        bool | None,
        typer.Option(
            "--semantic/--words", help="Also by meaning, or by words alone; default: also by meaning if vectors are on."
        ),
    ] = None,
    include_superseded: Annotated[
        bool, typer.Option("--include-superseded", help="Also superseded observations.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Finds observations and kept messages by their words, best first; observations also by meaning if vectors are on.

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
            conversation_id=conversation,
            top_k=top_k,
            messages=messages,
            as_of=moment("--as-of", as_of),
            explain=explain,
            plan=plan,
            semantic=semantic,
            include_superseded=include_superseded,
        ),
    )
    if found.notice:
        output.complain(found.notice)
    looked_for = ", ".join(found.terms)
    nothing = f"nothing found for: {looked_for}" if looked_for else "the query has no word to look for"
    output.rows(found.results, hit_line, as_json, "" if found.messages else nothing)
    for hit in found.messages:
        output.one(hit, message_hit_line, as_json)
    if not as_json:
        for line in _about_the_query(found):
            print(line)


def hit_line(hit: Hit) -> str:
    return f"{hit.score:.2f}  {output.observation_line(hit.observation)}{_explained(hit.explanation)}"


def message_hit_line(hit: MessageHit) -> str:
    return f"{hit.score:.2f}  {output.message_line(hit.message)}{_explained(hit.explanation)}"


def _explained(told: Explanation | None) -> str:
    if told is None:
        return ""
    parts = ", ".join(f"{name} {value:.2f}" for name, value in told.parts.items())
    matched = f"matched {', '.join(map(output.plain, told.matched))}; " if told.matched else ""
    links = "".join(f"\n      {output.plain(str(link))}" for link in told.links)
    return f"\n      {matched}admitted by {told.admitted}; {parts}{links}"


def _about_the_query(found: SearchResult) -> Iterator[str]:
    if found.left_out:
        yield f"not looked for: {', '.join(f'{word} ({why})' for word, why in found.left_out.items())}"
    yield from found.plan
