"""Writes the reference pages from the code: `make docs`. A test compares them with what is written here.

configuration.md   from `memory_sql.config`: every setting
errors.md          from `memory_sql.errors`: the tree, and each error's docstring and attributes
api.md             from `memory_sql.__all__`: signatures, docstrings and fields
commands.md        from `memory_sql.cli`: every command
routes.md          from `memory_sql.server.calls`: what can be asked for over HTTP
views.md           from `memory_sql/db/sql/views`: what each view says of itself, and of its columns
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel

import memory_sql
from memory_sql import Memory, Settings, cli, errors
from memory_sql.config.describe import accepted, default_of
from memory_sql.config.environment import PREFIX
from memory_sql.config.fields import names_per_agent
from memory_sql.config.settings import sections
from memory_sql.db import ddl
from memory_sql.domain import results
from memory_sql.resources.faces import FACES
from memory_sql.server.calls import CALLS
from memory_sql.server.requests import Asked

HERE = Path(__file__).parent
GENERATED = "<!-- Written by `make docs`. Change the docstrings and declarations in memory_sql instead. -->"
WIDTH = 100
COROUTINE = re.compile(r"Coroutine\[Any, Any, (.+)\]$")


def main() -> None:
    for name, text in pages().items():
        (HERE / name).write_text(text, "utf-8")


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    made = {"configuration.md": configuration(), "errors.md": error_tree(), "api.md": api(), "views.md": views()}
    made |= {"routes.md": http_routes(), "commands.md": commands()}
    return {name: "\n\n".join(filter(None, [GENERATED, *parts])) + "\n" for name, parts in made.items()}


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def doc_of(thing: object) -> str:
    return inspect.cleandoc(thing.__doc__ or "") if hasattr(thing, "__doc__") else ""


# Configuration

CONFIGURATION = f"""# Configuration

A setting comes from the first of these that names it:

1. an argument: `Settings(pool_size=10)`, or an option of the command line,
2. the environment: `{PREFIX}POOL_SIZE=10`,
3. a TOML file: `pool_size = 10` in `memory-sql.toml` in the working directory, or in the file that `{PREFIX}CONFIG` names,
4. the default.

Settings marked *per agent* can be changed for one agent: `memory.configure(agent_id="ada", formation_messages=20)`, or
`memory-sql configure --agent ada --set formation_messages=20`. An agent's own value is kept in the database and overrides
all of these. `memory-sql admin settings` prints every setting with its value and source.

In the environment, write a list as names separated by commas, or as JSON. A variable that is empty is unset. One that
looks like a setting but isn't, such as `MEMORYSQL_URL`, is a warning that names the nearest.

Only `{PREFIX}URL` names the database. If nothing does, memory is in the embedded Postgres, and a warning says so where
`DATABASE_URL` or `PGHOST` is set. A command says on stderr which database it uses, unless its own options do; `Memory`
logs it when it opens (level info)."""


def configuration() -> list[str]:
    own = names_per_agent(Settings)
    parts = [CONFIGURATION]
    for section in sections():
        rows = [
            (
                f"`{name}`",
                f"`{PREFIX}{name.upper()}`",
                accepted(field),
                default_of(field),
                "yes" if name in own else "no",
                field.description or "",
            )
            for name, field in section.model_fields.items()
        ]
        titles = ("Name", "Environment variable", "Type and range", "Default", "Per agent", "What it does")
        parts += [f"## {doc_of(section)}", table(titles, rows)]
    return parts


# The command line

COMMANDS = """# Commands

The command line uses the names of the Python methods: `memory-sql observation list` is `memory.observations.list`, and
`memory-sql search` is `memory.search`. A few are shorter or other: `show` is `get`, `group add` and `group remove` are
`add_member` and `remove_member`, and `prompt diff` has no method of its own. `memory-sql COMMAND --help` explains each with
its options; `--json` prints JSON. The methods: [api.md](api.md)."""
FACE_OF = {"person": "people", "entity": "entities"}


def commands() -> list[str]:
    groups: dict[str, Any] = {"": []}
    for name, command in cli.commands().commands.items():
        if hasattr(command, "commands"):
            groups[name] = command
        else:
            groups[""].append((name, command))
    parts = [COMMANDS, command_table(groups.pop(""))]
    for name, group in groups.items():
        face = next((face for face in (FACE_OF.get(name), f"{name}s", name) if face in FACES), None)
        parts += [f"## {name}", group.help + (f" In Python: `memory.{face}`." if face else "")]
        parts.append(command_table([(f"{name} {inner}", command) for inner, command in group.commands.items()]))
    return parts


def command_table(named: Sequence[tuple[str, Any]]) -> str:
    return table(("Command", "What it does"), [(f"`memory-sql {name}`", first_of(command)) for name, command in named])


def first_of(command: Any) -> str:
    """The first paragraph of a command's help, on one line."""
    return " ".join(command.help.partition("\n\n")[0].split())


# HTTP

ROUTES = """# HTTP: routes

The server's routes under `/v1/agents/{agent_id}/`, as [http.md](http.md) explains. Parameters have the names of the method's
([api.md](api.md)); `*`: needed. Those of a GET or DELETE are in the query, others in a JSON object. *Right*: what a key
needs; *of a user*: what a key needs that stands for a user (–: such a key can't ask for it). *Accept: text/event-stream*: it
can say meanwhile how far it is."""


def http_routes() -> list[str]:
    titles = ("Request", "Calls", "Right", "Of a user", "Parameters beside those in the path")
    return [ROUTES, table(titles, [route(Asked(call)) for call in CALLS])]


def route(asked: Asked) -> tuple[str, ...]:
    call, empty = asked.call, inspect.Parameter.empty
    given = [f"`{name}`{'*' if default is empty else ''}" for name, (_, default) in asked.others.items()]
    given += ["If-Match"] if asked.condition is not None else []
    given += ["Idempotency-Key"] if asked.takes_key else []
    given += ["Accept: text/event-stream"] if asked.tells else []
    return f"`{call.method} {call.path}`", f"`{call.target}`", call.right, call.own or "–", ", ".join(given)


# Errors

HTTP = """## HTTP statuses

A service of yours that speaks HTTP can answer with `memory_sql.errors.http_status(error)`: 4xx if the caller has to change
something, 503 or 429 if trying again later may help (`BudgetError.until` says when), 500 and 502 if somebody has to look.
Return the message of the error with a 4xx alone: others name hosts and settings.
[examples/service](../examples/service/README.md) does this with one exception handler."""


def error_tree() -> list[str]:
    introduction, tree, rest = re.split(r"\n\n(?= )|\n\n(?=\S)", doc_of(errors), maxsplit=2)
    drawn = inspect.cleandoc(tree)
    parts = ["# Errors", introduction, f"```text\n{drawn}\n```", rest, HTTP, statuses()]
    for name in re.findall(r"\w+Error", drawn):
        parts += error(getattr(errors, name))
    return parts


def statuses() -> str:
    rows = [
        (str(status), ", ".join(f"`{cls.__name__}`" for cls, own in errors.STATUSES.items() if own == status))
        for status in sorted(set(errors.STATUSES.values()))
    ]
    return table(("Status", "Errors"), rows)


def error(cls: type[errors.MemorySQLError]) -> list[str]:
    hints = get_type_hints(cls, localns=vars(results))
    rows = [(f"`{name}`", f"`{shown(hints[name])}`") for name in inspect.get_annotations(cls)]
    bases = [f"Kind of `{base.__name__}`." for base in cls.__bases__ if is_error(base)]
    return [f"## {cls.__name__}", *bases, doc_of(cls), *([table(("Attribute", "Type"), rows)] if rows else [])]


# API


def api() -> list[str]:
    public = {name: getattr(memory_sql, name) for name in memory_sql.__all__ if not name.startswith("__")}
    faces = faces_of(Memory("postgresql://nowhere/none", settings=Settings()))
    called = {"memory": Memory} | {f"memory.{name}": cls for name, cls in faces.items()}
    rest = {name: value for name, value in public.items() if value not in called.values() and not is_error(value)}
    parts = ["# API", "All of these names are imported from `memory_sql`. Errors: [errors.md](errors.md)."]
    for prefix, cls in called.items():
        parts += [f"## {'Memory' if cls is Memory else prefix}", doc_of(cls), *methods(cls, prefix)]
    parts.append("## Types")
    for name, value in rest.items():
        parts += [f"### {name}", *described(name, value)]
    return parts


def faces_of(memory: Memory) -> dict[str, type]:
    return {name: type(getattr(memory, name)) for name in FACES}


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.MemorySQLError)


def methods(cls: type, prefix: str) -> Iterator[str]:
    """Heading, signature and docstring of each public method, in the order of the source."""
    if "." not in prefix and not getattr(cls, "_is_protocol", False):
        yield code(cls.__name__, vars(cls)["__init__"])
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        yield f"### {prefix}.{name}"
        yield code(f"{prefix}.{name}", function) if function is member else f"Property: `{return_of(function)}`."
        yield doc_of(function)


def code(name: str, function: Any) -> str:
    """The signature as it is written, one parameter a line where it is long."""
    keyword = "await " if is_awaited(function) else ""
    given, star = [], False
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            given.append("*")
        star = star or parameter.kind is parameter.KEYWORD_ONLY
        given.append(written(parameter))
    result = "" if name[0].isupper() else f" -> {return_of(function)}"
    line = f"{keyword}{name}({', '.join(given)}){result}"
    if len(line) > WIDTH:
        line = f"{keyword}{name}(\n" + "".join(f"    {one},\n" for one in given) + f"){result}"
    return f"```text\n{line}\n```"


def written(parameter: inspect.Parameter) -> str:
    star = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    annotation = parameter.annotation.replace("own.", "").replace("results.", "")
    return f"{star}{parameter.name}: {annotation}{default}"


def is_awaited(function: Any) -> bool:
    returned = str(inspect.signature(function).return_annotation)
    return inspect.iscoroutinefunction(function) or COROUTINE.match(returned) is not None


def return_of(function: Any) -> str:
    """What a call returns, or what comes of awaiting it."""
    returned = COROUTINE.sub(r"\1", str(inspect.signature(function).return_annotation))
    return returned.removeprefix("results.")


def described(name: str, value: Any) -> Iterator[str]:
    """A type's docstring with its fields or methods; an alias's definition."""
    if not isinstance(value, type):
        yield f"`{name} = {shown(value)}`"
        return
    yield doc_of(value)
    if value is Settings or is_typeddict(value):
        yield "All of them: [configuration.md](configuration.md)."
    elif rows := list(fields(value)):
        yield table(("Field", "Type"), rows)
    if not (issubclass(value, BaseModel) or dataclasses.is_dataclass(value) or is_typeddict(value)):
        yield from (part.replace("### ", "#### ", 1) for part in methods(value, variable(name)))


def variable(name: str) -> str:
    return re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower()


def fields(cls: type) -> Iterator[tuple[str, str]]:
    if issubclass(cls, BaseModel):
        for name, field in cls.model_fields.items():
            yield f"`{name}`", f"`{shown(field.annotation)}`"
    elif dataclasses.is_dataclass(cls):
        hints = get_type_hints(cls)
        for one in dataclasses.fields(cls):
            yield f"`{one.name}`", f"`{shown(hints[one.name])}`"


def shown(hint: Any) -> str:
    """A type as one writes it, whatever the version of Python."""
    if hint is types.NoneType or hint is None:
        return "None"
    if isinstance(hint, list):
        return f"[{', '.join(map(shown, hint))}]"
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(sorted(map(shown, parts), key=lambda part: part == "None"))
    if origin is Annotated:
        return shown(parts[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if parts:
        return f"{getattr(origin, '__name__', origin)}[{', '.join('...' if p is ... else shown(p) for p in parts)}]"
    return str(getattr(hint, "__name__", hint))


# Views

VIEWS = """# Views

Each is `memory.<name>`; `\\d+ memory.v_users` in psql says the same, with types. Names, grain and columns are kept stable.
Times are `timestamptz`, days in UTC. [analytics.md](analytics.md) says who may read which view, and has example queries."""
COLUMN = re.compile(r"^COMMENT ON COLUMN memory\.\w+\.(\w+) IS\s'((?:[^']|'')*)';$", re.MULTILINE)


def views() -> list[str]:
    parts = [VIEWS]
    for name in ddl.VIEWS:
        script = (files("memory_sql.db") / "sql" / "views" / f"{name}.sql").read_text("utf-8")
        rows = [(f"`{column}`", comment.replace("''", "'")) for column, comment in COLUMN.findall(script)]
        parts += [f"## {name}", header_of(script), table(("Column", "What it says"), rows)]
    return parts


def header_of(script: str) -> str:
    """What a SQL file says before its first statement, as a paragraph, without its name."""
    comment, _, _ = script.partition("\nCREATE ")
    text = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    said = text.partition(": ")[2]
    return said[0].upper() + said[1:]


if __name__ == "__main__":
    main()
