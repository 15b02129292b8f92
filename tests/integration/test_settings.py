"""With any value of a setting everything still works: within its limits for its agent, as before for all others."""

from __future__ import annotations

import json
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from memory_sql.config import AGENT_SETTINGS, Settings
from memory_sql.config.kinds import FOREVER, MOST_PHRASES
from memory_sql.config.own import AgentSettings
from memory_sql.errors import ConfigurationError, DatabaseError, InputError, MemorySQLError
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import conversation
from tests.fakes import Parrot
from tests.sizes import few_in_every_run

ELSEWHERE = {
    "url",
    "read_url",
    "shards",
    "schema",
    "data_dir",
    "forget_journal",
    "llm",
    "embedding",
    "embedding_base_url",
}  # of this machine
FEWER = {"formation_phrases": MOST_PHRASES}  # than other lists may hold
LIMITS = {
    "daily_tokens",
    "daily_cost",
    "message_max_characters",
    "observation_max_characters",
}  # at their least nothing goes on
GARBAGE = [10**13, -1, 2.5, 1e300, 10**400, 1e-300, "x", "", None, [], [None], ["x" * 100_000], {}, {"a": 1}]


def limit(field: FieldInfo, name: str) -> Any:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)


def least(name: str) -> Any:
    return extremes(name)[-1 if name in LIMITS else 0]


def most(name: str) -> Any:
    return extremes(name)[-1]


def extremes(name: str) -> list[Any]:
    """What of the values that the setting accepts is the least and the most, by its declaration."""
    field = Settings.model_fields[name]
    kind = next(each for each in (*get_args(field.annotation), field.annotation) if each is not NoneType)
    if get_origin(field.annotation) in (Literal, tuple):
        kind = field.annotation
    if kind is bool:
        return [False, True]
    if kind in (int, float):
        return [limit(field, "ge"), limit(field, "le")]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if get_origin(kind) is tuple:
        return [[], _longest(get_args(kind)[0])[: FEWER.get(name)]]
    return {"language": ["arabic", "yiddish"], "time_zone": ["Pacific/Kiritimati", "Etc/GMT+12"]}.get(
        name, ["x", "x" * 255]
    )


def _longest(each: Any) -> list[str]:
    return list(get_args(each)) if get_origin(each) is Literal else [f"{n:04}" + "x" * 251 for n in range(1000)]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_bounded(name: str) -> None:
    field = Settings.model_fields[name]
    kinds = {*get_args(field.annotation), field.annotation}
    if kinds & {int, float}:
        assert limit(field, "ge") is not None
        assert limit(field, "le") is not None
        with pytest.raises(MemorySQLError):
            Settings.load(**{name: float("inf")})
        with pytest.raises(MemorySQLError):
            Settings.load(**{name: float("nan")})
    listed = get_origin(field.annotation) is tuple
    if kinds & {str, Path, SecretStr} and not listed and name not in ("language", "time_zone"):
        with pytest.raises(MemorySQLError, match=name):
            Settings.load(**{name: "x" * 10_000})
        with pytest.raises(MemorySQLError, match=name):
            Settings.load(**{name: "a\x00b"})
    if listed and str in kinds:
        for wrong in (["x"] * 1001, ["x" * 256], [""]):
            with pytest.raises(MemorySQLError, match=name):
                Settings.load(**{name: wrong})


async def live(memory: Memory, agent_id: str) -> None:
    """Every kind of work and of reading, once."""
    mia: dict[str, Any] = {"agent_id": agent_id, "user_id": "mia"}
    await memory.add(
        conversation(6), **mia, conversation_id="a", group_ids=["crew"], time_zone="Asia/Tokyo", idempotency_key="k"
    )
    await memory.observe("Home is Gate 7.", **mia, fact_key="home", tags=["boat"])
    await memory.observe("Mia can't swim.", **mia)
    await memory.conversations.form(agent_id=agent_id, conversation_id="a")
    await memory.run_due()
    await memory.work.maintain()
    await memory.work.trim(agent_id=agent_id)
    await memory.scopes.propagate(agent_id=agent_id)
    for assembly in ("eden", "digest", "both"):
        await memory.context(**mia, message="Do you remember Gate 7?", conversation_id="a", assembly=assembly)
    await memory.context(**mia, as_of=memory.now())
    await memory.digest(**mia, query="gate", as_of=memory.now())
    await memory.digest(**mia)
    await memory.search("gate", **mia)
    await memory.work.backlog(agent_id=agent_id)
    await memory.admin.stats(agent_id=agent_id)
    worked = await Worker(memory).run_once()
    assert worked.failed == 0
    assert await memory.admin.verify() == []


def alternatives(hint: Any) -> set[Any]:
    """What a setting of an agent may be, as the process's is declared: None removes it, a list stands for a tuple."""
    parts = {part for part in get_args(hint) if get_origin(part) is not list}
    return parts - {NoneType, Literal[FOREVER]}


def test_type_checkers_know_the_settings_of_an_agent() -> None:
    hints = get_type_hints(AgentSettings)
    assert tuple(hints) == AGENT_SETTINGS
    for name, hint in hints.items():
        declared: Any = Settings.model_fields[name].annotation
        assert alternatives(hint) == alternatives(declared | None), name


@pytest.mark.slow
@pytest.mark.parametrize("extreme", [least, most])
async def test_no_setting_of_an_agent_stops_anybody(database_url: str, extreme: Any) -> None:
    async with Memory(database_url, Parrot()) as memory:
        await memory.configure(agent_id="ada", **{name: extreme(name) for name in AGENT_SETTINGS})
        await live(memory, "ada")
        await live(memory, "bob")
        assert await memory.configure(agent_id="ada", **dict.fromkeys(AGENT_SETTINGS)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("extreme", [least, most])
async def test_no_setting_of_the_process_stops_it(database_url: str, extreme: Any) -> None:
    given = {name: extreme(name) for name in Settings.model_fields if name not in ELSEWHERE}
    async with Memory(database_url, Parrot(), Settings.load(**given)) as memory:
        await live(memory, "ada")


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", few_in_every_run(GARBAGE, [10**13, 2.5, "x", None]), ids=lambda wrong: repr(wrong)[:20]
)
async def test_what_was_stored_out_of_range_counts_as_the_processs(
    memory: Memory, wrong: Any, database_url: str
) -> None:
    async with Memory(database_url, Parrot()) as memory:
        await memory.configure(agent_id="ada", formation_messages=5)
        stored = json.dumps({name: wrong for name in AGENT_SETTINGS if name != "language"})
        await rows(memory, "UPDATE memory.agents SET settings = CAST(:stored AS jsonb)", stored=stored)
        await live(memory, "bob")
        await live(memory, "ada")


@pytest.mark.parametrize("wrong", [10**12, 0, 2.5, float("nan"), "x"])
async def test_a_wrong_setting_is_not_kept(memory: Memory, wrong: Any) -> None:
    with pytest.raises(InputError, match="consolidation_threshold"):
        await memory.configure(agent_id="ada", consolidation_threshold=wrong)
    with pytest.raises(InputError):
        await memory.configure(agent_id="ada", pending_max=5, time_zone="/etc/passwd")
    assert await memory.admin.agents() == []


async def test_a_setting_is_kept_with_what_becomes_due_by_it_or_not_at_all(memory: Memory) -> None:
    await memory.configure(agent_id="ada", formation_min_messages=10)
    await memory.add(conversation(6), agent_id="ada", user_id="mia", conversation_id="a")
    await rows(memory, "ALTER TABLE memory.conversations ADD CHECK (due_reason = 'rest')")
    with pytest.raises(DatabaseError):
        await memory.configure(agent_id="ada", formation_min_messages=1)
    assert await memory.admin.settings(agent_id="ada") == {"formation_min_messages": 10}


async def test_names_in_settings_are_cleaned(memory: Memory) -> None:
    own = await memory.configure(agent_id="ada", digest_tags=["bo\U000e0041at", "a\x00b"])
    assert own["digest_tags"] == ["boat", "a\ufffdb"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "there is no file"), (b"top_k = ", "not valid TOML"), (b"\xff = 1", "not valid TOML"),
     (b"top_k = 5\ntop_k = 6", "not valid TOML"), (b"lock_timeout_seconds = nan", "lock_timeout_seconds"),
     (b"lock_timeout_seconds = inf", "lock_timeout_seconds"),
     (b"topk = 5", "topk"),
     (b'digest_tags = "[[["', "digest_tags")],
)  # fmt: skip
def test_a_settings_file_that_is_wrong_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, words: str
) -> None:
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(path))
    told = memory_sql("admin", "settings", code=1).err
    assert words in told
    assert told.startswith("memory-sql: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize("port", ["0", "65536", "99999999999", "x", "-1"])
def test_a_port_that_is_impossible_is_told_in_one_line(port: str) -> None:
    told = memory_sql("admin", "verify", "--url", f"postgresql://user:s3cret@localhost:{port}/x", code=1).err
    assert "port" in told or "can't be read" in told
    assert "s3cret" not in told
    assert told.count("\n") == 1


def test_unknown_variable_is_a_warning_that_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MEMORY_SQL_POOLSIZE", "7")
    Settings.load()
    Settings.load()
    assert caplog.messages == [
        "MEMORY_SQL_POOLSIZE isn't a setting and has no effect; did you mean MEMORY_SQL_POOL_SIZE?"
    ]


@pytest.mark.parametrize("name", ["url", "pool_size", "typo"])
def test_value_that_is_wrong_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """It may hold a password, and a host logs the error of `Settings(…)`."""
    file = tmp_path / "memory-sql.toml"
    file.write_text(f'{name} = "postgresql://memory:hunter2@db/\\u0007"')
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(file))
    with pytest.raises(ConfigurationError, match=name) as wrong:
        Settings()
    assert "hunter2" not in str(wrong.value)


@pytest.mark.parametrize(
    "zone", ["localtime", "posixrules", "posix/Europe/Berlin", "../UTC", "/etc/localtime", "europe/berlin"]
)
def test_a_zone_is_a_name_of_iana_and_no_file_of_the_machine(zone: str) -> None:
    with pytest.raises(MemorySQLError, match="IANA"):
        Settings.load(time_zone=zone)


async def test_ids_in_settings_are_written_as_they_are_stored(memory: Memory) -> None:
    """Else who is excluded under a UUID in capitals isn't."""
    dashed = "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"
    ids: dict[str, Any] = {"propagation_excluded_users": [dashed, "Mia"], "propagation_names_in": [dashed]}
    await memory.configure(agent_id="ada", **ids)
    assert await memory.admin.settings(agent_id="ada") == {
        "propagation_excluded_users": [dashed.lower(), "Mia"],
        "propagation_names_in": [dashed.lower()],
    }
    assert Settings(llm="offline", **ids).propagation_excluded_users == (dashed.lower(), "Mia")


async def test_what_is_due_stays_due_when_the_threshold_is_raised(memory: Memory) -> None:
    await memory.configure(agent_id="ada", consolidation_threshold=2)
    for text in ("The quay is closed.", "The crane is red."):
        await memory.observe(text, agent_id="ada", user_id="mia")
    await memory.configure(agent_id="ada", consolidation_threshold=10)
    assert (await memory.work.backlog(agent_id="ada")).due_scopes == 1
    assert await memory.admin.verify() == []
