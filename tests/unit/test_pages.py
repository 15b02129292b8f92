"""The pages: every code block is checked, and every link leads somewhere.

Blocks that can run are run elsewhere: Python by the tests of the README, the tutorial, groups, propagation, workers and
SQLAlchemy; SQL by those of analytics, deploying and `tests/integration/test_pages.py`.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import inspect
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import memory_sql
from memory_sql import Memory, Settings, cli, models
from memory_sql.config.environment import OTHER_VARIABLES
from memory_sql.resources.faces import FACES
from memory_sql.resources.runtime import Face
from tests.commands import commands

ROOT = Path(__file__).parents[2]
GENERATED = {"docs/api.md", "docs/commands.md", "docs/configuration.md", "docs/errors.md", "docs/views.md"}
LINKED = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "examples/*/README.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
PAGES = [name for name in LINKED if not name.startswith("tests/")]
WRITTEN = [name for name in PAGES if name not in GENERATED]
LANGUAGES = {"python", "sh", "console", "sql", "ini", "toml", "yaml", "text", "xml"}
MEMORY = Memory("postgresql://nobody@127.0.0.1:9/nothing")
END_OF_COMMAND = {";", "&&", "||", "|", ">", ">>", "&"}


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks, each with the number of its first line."""
    text = read(page)
    for found in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        yield Block(page, text.count("\n", 0, found.start()) + 2, found[2], found[3])


def prose(page: str) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", read(page), flags=re.MULTILINE | re.DOTALL)


def spans(page: str) -> list[str]:
    """What stands between single backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def of(*languages: str) -> list[Any]:
    found = (block for page in WRITTEN for block in blocks(page))
    return [pytest.param(block, id=str(block)) for block in found if block.language in languages]


@cache
def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-") for title in titles}


def dead_links(page: str) -> Iterator[str]:
    for link in re.findall(r"\]\(((?!https?:)[^)]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


# Links


@pytest.mark.parametrize("page", LINKED)
def test_every_link_leads_somewhere(page: str) -> None:
    assert list(dead_links(page)) == []


def test_index_names_every_page() -> None:
    listed = re.findall(r"\]\(([\w.-]+)(?:#[\w-]+)?\)", read("docs/README.md"))
    assert sorted(set(listed)) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")
    assert len(listed) == len(set(listed))


def test_comparison_gives_each_source_its_address_and_date() -> None:
    text, _, sources = read("docs/comparison.md").partition("## Sources")
    cited = set(re.findall(r"\[([a-z]\d+)\]", text))
    assert cited == set(re.findall(r"^\| \[([a-z]\d+)\] .* \| .*(?:\d+ \w+ 20\d\d) \|$", sources, re.MULTILINE))
    assert cited == set(re.findall(r"^\[([a-z]\d+)\]: https://\S+$", sources, re.MULTILINE))
    assert "] [" not in text  # a builder takes `[a1] [a2]` for one link


# Blocks


@pytest.mark.parametrize("page", WRITTEN)
def test_every_block_says_its_language(page: str) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", [page for page in WRITTEN if not page.startswith("examples/")])
def test_no_block_is_only_indented(page: str) -> None:
    assert re.findall(r"^\n {4}\S.*", prose(page), re.MULTILINE) == []


@pytest.mark.parametrize("block", of("python"))
def test_python_compiles_and_calls_what_exists(block: Block) -> None:
    tree = compile(
        block.text, str(block), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    assert list(mistakes(tree)) == []


def mistakes(tree: ast.AST) -> Iterator[str]:
    """Names and arguments of ours that the code uses and that don't exist."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "memory_sql":
            module = importlib.import_module(str(node.module))
            yield from (alias.name for alias in node.names if not hasattr(module, alias.name))
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            yield from [name] if name.startswith("memory.") and resolved(name) is None else []
        if isinstance(node, ast.Call) and callable(called := resolved(ast.unparse(node.func))):
            yield from wrong_arguments(called, node)


def wrong_arguments(called: Callable[..., Any], node: ast.Call) -> Iterator[str]:
    parameters = inspect.signature(called).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        given = (keyword.arg for keyword in node.keywords if keyword.arg is not None)
        yield from (f"{ast.unparse(node.func)}({name}=)" for name in given if name not in parameters)


def faces() -> dict[str, Face]:
    return {name: getattr(MEMORY, name) for name in FACES}


def resolved(name: str) -> Any:
    """What `memory.observations.get`, `groups.create` or `Selection` are; None for what isn't ours."""
    first, *rest = name.split(".")
    found: Any = {"memory": MEMORY, **faces()}.get(first) or getattr(memory_sql, first, None)
    for part in rest:
        found = getattr(found, part, None)
    return found


def test_mistakes_in_python_are_found() -> None:
    wrong = "from memory_sql import Memroy\nmemory.remember()\nmemory.groups.creat()\nmemory.search('', agent='ada')"
    assert list(mistakes(ast.parse(wrong))) == [
        "Memroy", "memory.search(agent=)", "memory.remember", "memory.groups.creat",
    ]  # fmt: skip


@pytest.mark.parametrize("block", of("ini", "toml", "yaml"))
def test_files_can_be_read(block: Block) -> None:
    if block.language == "ini":
        configparser.ConfigParser(interpolation=None).read_string(block.text)
    elif block.language == "toml":
        assert not set(tomllib.loads(block.text)) - set(Settings.model_fields)
    else:
        assert list(yaml.safe_load_all(block.text))


# The command line


def command_lines(block: Block) -> Iterator[str]:
    """Of a console the lines after a prompt; of a script every line."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "sh" or line.startswith("$ "):
            yield line.removeprefix("$ ")


def invocations(line: str) -> Iterator[list[str]]:
    """The arguments of each `memory-sql` in a line of a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = list(lexer)
    for at, word in enumerate(words):
        if word == "memory-sql" and (not at or words[at - 1] in END_OF_COMMAND | {"until"} or "=" in words[at - 1]):
            rest = words[at + 1 :]
            yield rest[: next((n for n, one in enumerate(rest) if one in END_OF_COMMAND), len(rest))]


def parse(arguments: list[str]) -> None:
    """Raises what the command line would say of arguments that it can't read."""
    command: Any = cli.commands()
    while hasattr(command, "commands"):
        name, *arguments = arguments
        assert name in command.commands, name
        command = command.commands[name]
    command.make_context(command.name, arguments)


@pytest.mark.parametrize("block", of("sh", "console"))
def test_commands_can_be_parsed(block: Block) -> None:
    for line in command_lines(block):
        for arguments in invocations(line):
            parse(arguments)


@pytest.mark.parametrize("block", of("sh", "console"))
def test_targets_of_make_and_extras_exist(block: Block) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    extras = set(tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"])
    assert set(re.findall(r"^(?:\$ )?make ([a-z-]+)", block.text, re.MULTILINE)) <= targets
    for named in re.findall(r"pip install .*\[([\w,]+)\]", block.text):
        assert set(named.split(",")) <= extras


@pytest.mark.parametrize("wrong", ["forgett --agent ada", "context --agent ada --usr mia", "group create --agent ada"])
def test_mistakes_in_commands_are_found(wrong: str) -> None:
    (arguments,) = invocations(f"MEMORY_SQL_LLM=offline memory-sql {wrong} | less  # a comment")
    with pytest.raises((AssertionError, Exception), match=r"(?i)forgett|--usr|group"):
        parse(arguments)


# Names in the prose


def sql_names() -> set[str]:
    files = (ROOT / "memory_sql/db/sql").rglob("*.sql")
    made = {
        name
        for file in files
        for name in re.findall(r"(?:FUNCTION|VIEW|CREATE TABLE) memory\.(\w+)", file.read_text("utf-8"))
    }
    return made | {table.name for table in models.ScopeRow.metadata.tables.values()} | {"alembic_version"}


@pytest.mark.parametrize("page", LINKED)
def test_commands_in_the_prose_exist(page: str) -> None:
    known = {command[:depth] for command in commands() for depth in (1, 2, 3)}
    for span in spans(page):
        if span.startswith("memory-sql ") and (words := re.match(r"memory-sql((?: [a-z][a-z0-9-]*)+)", span)):
            first = tuple(words[1].split())
            assert first[:2] in known or first[:1] in known - {
                command[:1] for command in commands() if len(command) > 1
            } | ({first[:1]} if len(first) == 1 else set()), span


@pytest.mark.parametrize("page", PAGES)
def test_methods_and_objects_in_the_prose_exist(page: str) -> None:
    known = sql_names() | {"schema_fingerprint"}
    for span in spans(page):
        if (found := re.match(r"(?:Memory|memory)\.(\w+(?:\.\w+)?)(?!\w)", span)) and found[1] != "py":
            first = found[1].partition(".")[0]
            assert resolved(f"memory.{found[1]}") is not None or first in known, span


@pytest.mark.parametrize("page", PAGES)
def test_settings_in_the_environment_exist(page: str) -> None:
    known = {f"MEMORY_SQL_{name.upper()}" for name in Settings.model_fields}
    known |= {f"MEMORY_SQL_{name}" for name in OTHER_VARIABLES}
    assert set(re.findall(r"MEMORY_SQL_[A-Z_]*[A-Z]", read(page))) <= known


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_in_the_prose_exist(page: str) -> None:
    named = [span for span in spans(page) if re.fullmatch(r"[\w./-]+/|[\w./-]+/[\w.-]+\.(?:py|sql|toml|md)", span)]
    assert len(named) > 5
    homes = (ROOT, ROOT / "memory_sql", ROOT / "memory_sql/languages", ROOT / "migrations/versions")
    assert [name for name in named if not any((home / name).exists() for home in homes)] == []


def test_architecture_has_each_rule_that_is_cited() -> None:
    """By its number, in invariants, comments and tests."""
    rules = (
        (ROOT / "docs/architecture.md").read_text().partition("## The rules of the watermark")[2].partition("\n## ")[0]
    )
    files = [
        path
        for folder in ("memory_sql", "tests")
        for kind in ("py", "sql")
        for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    cited = [re.findall(r"\b[Rr]ules? (\d+)(?:(?: and |–)(\d+))?", path.read_text()) for path in files]
    known = re.findall(r"^(\d+)\. ", rules, re.MULTILINE)
    assert known == [str(n) for n in range(1, 12)]
    assert {number for found in cited for pair in found for number in pair if number} <= {*known}


def test_architecture_names_every_table() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", read("docs/architecture.md"), re.MULTILINE)
    assert sorted(listed) == sorted(table.name for table in models.ScopeRow.metadata.tables.values())


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_layers_are_those_that_are_checked(page: str) -> None:
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (drawn,) = [block.text for block in blocks(page) if block.text.startswith("cli\n")]
    assert [re.split(r"  ", line)[0] for line in drawn.splitlines()] == contracts[0]["layers"]
