"""Scopes' own prompts: list, show, set, diff."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Actor, Agent, AsJson, Data, MaybeScope, Reason, Scope, Url, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.prompts import ScopePrompt
    from memory_sql.memory import Memory

app = tree.group("Scopes' own prompts for forming their observations and writing their texts.")

Name = Annotated[
    Literal["extraction", "consolidation"],
    typer.Argument(
        metavar="NAME", help="extraction: what belongs to the scope; consolidation: how its text is written."
    ),
]


@app.command("list")
def list_prompts(
    agent: Agent, scope: MaybeScope = None, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists the versions of scopes' prompts, newest first.

    \b
    memory-sql prompt list s12 --agent ada
    """
    found = run(url, data, lambda memory: memory.prompts.list(agent_id=agent, scope_id=scope))
    output.rows(found, _line, as_json, "no scope has a prompt of its own")


@app.command()
def show(
    scope: Scope,
    name: Name,
    agent: Agent,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="This version; default: the newest.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints a prompt of a scope.

    \b
    memory-sql prompt show s12 extraction --agent ada
    """
    found = run(url, data, lambda memory: memory.prompts.get(scope, name, agent_id=agent, version=version))
    output.one(found, lambda prompt: f"{_line(prompt)}\n{output.indented(prompt.body or '')}".rstrip(), as_json)


@app.command("set")
def change(
    scope: Scope,
    name: Name,
    agent: Agent,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="The text of the prompt.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="A file with the text; - is stdin.")
    ] = None,
    override: Annotated[
        bool, typer.Option("--override", help="Replace the base prompt's instructions instead of adding to them.")
    ] = False,
    base: Annotated[bool, typer.Option("--base", help="Go back to the base prompt alone.")] = False,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Adds a version of a prompt, which applies from the next model call on.

    \b
    memory-sql prompt set s12 extraction --agent ada --text "Boats, sails and moorings."
    memory-sql prompt set s12 consolidation --agent ada --file instructions.md --override
    memory-sql prompt set s12 extraction --agent ada --base

    An override contains the slots {{data}} and {{answer}}, each once: there the library says what is data, and what form the
    answer has.
    """
    if sum((text is not None, file is not None, base)) != 1:
        raise InputError("use one of --text, --file and --base")
    body = None if base else text if file is None else _read(file)
    mode: Literal["guidance", "override"] = "override" if override else "guidance"
    added = run(
        url,
        data,
        lambda memory: memory.prompts.set(scope, name, body, agent_id=agent, mode=mode, actor=actor, reason=reason),
    )
    output.one(added, _line, as_json)


@app.command()
def diff(
    scope: Scope,
    name: Name,
    agent: Agent,
    from_version: Annotated[int, typer.Option("--from", metavar="N", help="This version.")],
    to_version: Annotated[
        int | None, typer.Option("--to", metavar="N", help="And this one; default: the newest.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows what changed between two versions of a prompt, line by line.

    \b
    memory-sql prompt diff s12 extraction --agent ada --from 1
    """

    async def both(memory: Memory) -> tuple[ScopePrompt, ScopePrompt]:
        older = await memory.prompts.get(scope, name, agent_id=agent, version=from_version)
        return older, await memory.prompts.get(scope, name, agent_id=agent, version=to_version)

    older, newer = run(url, data, both)
    if as_json:
        output.json_line({"from": older, "to": newer})
        return
    lines = unified_diff(
        (older.body or "").splitlines(),
        (newer.body or "").splitlines(),
        f"v{older.version} ({older.mode})",
        f"v{newer.version} ({newer.mode})",
        lineterm="",
    )
    print(output.plain("\n".join(lines)) or "nothing changed")


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: can't be read ({type(error).__name__})") from None


def _line(prompt: ScopePrompt) -> str:
    return f"{prompt.scope.id} {prompt.name} v{prompt.version}  {prompt.mode}  {output.minute(prompt.created_at)}"
