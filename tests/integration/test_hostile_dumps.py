"""Hostile dumps, up to the database: what can be stored is stored, and the rest is accounted for."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sql.domain.results import ImportReport
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.database import TOLD, rows
from tests.legacy.formats import dump
from tests.legacy.homes import Document, Home
from tests.unit.test_legacy_sources import ODD

KEY = b"k" * 32
HOME = Home(("hostile",))
LARGE = 16 * 1024 * 1024 - 4096


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


async def bring(memory: Memory, folder: Path, documents: dict[str, list[Document]]) -> ImportReport:
    dump(folder, documents.items())
    report = await memory.imports.mongo(dump=folder, key=KEY)
    assert report.unaccounted == ()
    assert {name: counts["source"] for name, counts in report.collections.items()} == {
        name: len(found) for name, found in documents.items()
    }
    return report


def words(size: int) -> str:
    """Ever others, without an end of a sentence."""
    pick = random.Random(1)
    return " ".join(f"{pick.randrange(16**7):07x}" for _ in range(size // 8))


TEXTS: dict[str, Callable[[int], str]] = {
    "one sentence": lambda size: "Mia sails. " * (size // 11),
    "many words": words,
    "one word": lambda size: "x" * size,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTS)
async def test_long_texts_come_and_cost_no_other(memory: Memory, tmp_path: Path, kind: str) -> None:
    await bring_long(memory, tmp_path, TEXTS[kind](512 * 1024))


@pytest.mark.prove
@pytest.mark.parametrize("kind", TEXTS)
async def test_texts_of_sixteen_megabytes_come_and_cost_no_other(memory: Memory, tmp_path: Path, kind: str) -> None:
    await bring_long(memory, tmp_path, TEXTS[kind](LARGE))


async def bring_long(memory: Memory, folder: Path, text: str) -> None:
    blobs = [HOME.blob(content=text), HOME.blob(HOME.other, content="Jonas rows.")]
    records = [HOME.directive(content=text), HOME.directive("short", content="Answer in short.")]
    report = await bring(memory, folder, {"memory_user": blobs, "memory_sessions": records})
    assert report.reasons == {}
    assert ("Answer in short.",) in await rows(memory, "SELECT content FROM memory.observations")
    scopes = await rows(memory, f"SELECT content FROM {TOLD} WHERE kind = 'individual'")  # noqa: S608
    assert {scope for (scope,) in scopes} == {text.strip(), "Jonas rows."}


@pytest.mark.slow
async def test_values_of_the_wrong_type_in_every_field_cost_no_other_document(memory: Memory, tmp_path: Path) -> None:
    makers: dict[str, Any] = {
        "users3": lambda *path: HOME.person(HOME.key("person", *path)),
        "sessions": lambda *path: HOME.session_document(HOME.key("session", *path)),
        "memory_user": lambda *path: HOME.blob(HOME.key("person", *path)),
        "memory_agent": lambda *path: HOME.shard(*path),
        "memory_sessions": lambda *path: HOME.directive(*path),
        "memory2_consolidated": lambda *path: HOME.later_blob(*path, user_id=HOME.key("person", *path)),
        "memory2_reflections": lambda *path: HOME.later("reflection", *path, absorbed=True),
        "memory2_facts": lambda *path: HOME.later("fact", *path),
    }
    odd = {
        name: [make(field, n) | {field: value} for field in make() for n, value in enumerate(ODD)]
        for name, make in makers.items()
    }
    odd["memory_sessions"].append(HOME.directive("short", content="Answer in short."))
    await bring(memory, tmp_path, odd)
    assert ("Answer in short.",) in await rows(memory, "SELECT content FROM memory.observations")


@pytest.mark.slow
async def test_folder_whose_name_is_no_text_can_be_imported(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"ed\xffen")
    await asyncio.to_thread(folder.mkdir)
    await bring(memory, folder, {"memory_user": [HOME.blob()]})
    assert [run.source for run in await memory.imports.list()] == ["ed\N{REPLACEMENT CHARACTER}en"]


async def test_broken_characters_in_every_text_cost_nothing(memory: Memory, tmp_path: Path) -> None:
    """Half a surrogate pair, which a driver of MongoDB can't write, but others could."""
    documents: dict[str, list[Document]] = {
        "users3": [HOME.person(HOME.user, "mia \ue000")],
        "sessions": [HOME.session_document(status="\ue000", memory_context=None)],
        "memory_user": [HOME.blob(content="Mia \ue000 sails.")],
        "memory_agent": [
            HOME.shard(shard_name="tides \ue000", extraction_prompt="\ue000 tides", content="High \ue000.")
        ],
        "memory_sessions": [HOME.directive(content="Answer in \ue000 short.")],
        "messages": [HOME.message(name="mia \ue000", content="So \ue000 it is.")],
    }
    dump(tmp_path, documents.items())
    for name in documents:
        file = tmp_path / f"{name}.bson"
        file.write_bytes(file.read_bytes().replace("\ue000".encode(), b"\xed\xa0\x80"))
    report = await memory.imports.mongo(dump=tmp_path, key=KEY, options=ImportOptions(messages=True))
    assert report.unaccounted == ()
    assert not [reason for reason in report.reasons if "directory" not in reason]
    names = await rows(memory, "SELECT display_name FROM memory.scopes WHERE kind = 'individual'")
    assert names == [("mia \N{REPLACEMENT CHARACTER}",)]
