"""docs/threats.md answers each threat of the lists that it names, by tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from memory_sql.config import AGENT_SETTINGS
from memory_sql.server.calls import CALLS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/threats.md").read_text("utf-8")
APPLICATIONS = """
LLM01 Prompt Injection
LLM02 Sensitive Information Disclosure
LLM03 Excessive Agency
LLM04 Supply Chain
LLM05 Data and Model Poisoning
LLM06 Unbounded Consumption
LLM07 Misinformation
LLM08 Hidden Context Exposure
LLM09 Vector and Embedding Weaknesses
LLM10 Improper Output Handling
""".strip().split("\n")
AGENTIC = """
ASI01 Agent Goal Hijack
ASI02 Tool Misuse and Exploitation
ASI03 Identity and Privilege Abuse
ASI04 Agentic Supply Chain Vulnerabilities
ASI05 Unexpected Code Execution
ASI06 Memory & Context Poisoning
ASI07 Insecure Inter-Agent Communication
ASI08 Cascading Failures
ASI09 Human-Agent Trust Exploitation
ASI10 Rogue Agents
""".strip().split("\n")
ENTRIES = re.findall(r"^### ([^\n]+)\n\n(.+?)(?=\n##|\Z)", PAGE, re.M | re.S)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = (one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


def test_each_threat_of_both_lists_has_an_entry_in_their_order() -> None:
    assert [name for name, _ in ENTRIES] == [*APPLICATIONS, *AGENTIC]


@pytest.mark.parametrize("entry", ENTRIES, ids=[name for name, _ in ENTRIES])
def test_entry_says_what_protects_what_does_not_and_by_which_test(entry: tuple[str, str]) -> None:
    _, text = entry
    assert re.findall(r"^- \*\*(.+?):\*\* \S", text, re.M) == ["Protects", "Doesn't", "Tests"]
    assert "`tests/" in text.rpartition("- **Tests:**")[2]


def test_each_number_of_2025_is_there_once() -> None:
    assert sorted(re.findall(r"\(2025: LLM(\d\d)", PAGE)) == [f"{n:02}" for n in range(1, 11)]


def test_each_of_the_seventeen_threats_leads_to_an_entry() -> None:
    rows = re.findall(r"^\| T(\d+) [^|]+ \| ([^|]+) \|", PAGE, re.M)
    assert [int(n) for n, _ in rows] == [*range(1, 18)]
    known = {name.split()[0] for name, _ in ENTRIES}
    assert {one for _, see in rows for one in see.split(", ")} <= known


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_test_that_is_named_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file()
    assert not name or name in names_in(file)


def test_no_route_and_no_agents_setting_reaches_prompts_keys_or_addresses() -> None:
    """Who may change an agent over HTTP can't have it ask another server, or by other instructions."""
    assert not [call.path for call in CALLS if re.search(r"prompt|model|keys", call.path)]
    assert not [name for name in AGENT_SETTINGS if re.search(r"url|api_key|base|prompt|header|model$", name)]
