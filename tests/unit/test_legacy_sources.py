"""Legacy documents from every source: the same documents in a stable order, resumed after any place; and hostile files."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import ObjectId, json_util
from bson.datetime_ms import DatetimeMS
from pymongo import monitoring

from memory_sql.errors import ConfigurationError, SourceError
from memory_sql.importers.mongo.sources.dump import DumpSource
from memory_sql.importers.mongo.sources.extended_json import ExtendedJsonSource
from memory_sql.importers.mongo.sources.live import LiveSource
from memory_sql.importers.mongo.sources.select import SourceKind, open_source
from memory_sql.importers.mongo.sources.source import Damaged, Found, Source
from memory_sql.importers.mongo.values import ObjectKey
from tests.legacy.formats import FORMATS, load
from tests.legacy.generator import Legacy
from tests.legacy.homes import Home, at
from tests.legacy.server import official, stand_in
from tests.legacy.surveying import spooled, surveyed
from tests.servers import docker_answers

HOME = Home(("sources",))
DOCUMENTS = [
    HOME.directive(n, content=f'{n} }} {{ "quoted" \\ é 日本 \ud83d', number=n, share=n / 8) for n in range(40)
]


def written(
    folder: Path, form: str, collections: dict[str, list[dict[str, Any]]], *, keep_going: bool = False
) -> Source:
    FORMATS[form](folder / "eden", list(collections.items()))
    opened: Callable[..., Source] = DumpSource if "dump" in form else ExtendedJsonSource
    return opened(folder, keep_going=keep_going)


async def read(source: Source, name: str | None = None, after: str | None = None) -> list[Found]:
    items = [item for item in await everything(source, name, after) if isinstance(item, Found)]
    assert [item for item in await everything(source, name, after) if isinstance(item, Damaged)] == []
    return items


async def everything(source: Source, name: str | None = None, after: str | None = None) -> list[Found | Damaged]:
    parts = [part for part in await source.parts() if name in (None, part.name)]
    return [item for part in parts for item in await listed(source.read(part, after))]


async def listed(items: AsyncIterator[Found | Damaged]) -> list[Found | Damaged]:
    return [item async for item in items]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with stand_in() as url:
        yield url


@pytest.mark.parametrize("form", FORMATS)
async def test_every_format_gives_the_same_documents(tmp_path: Path, form: str) -> None:
    found = [item.document for item in await read(written(tmp_path, form, {"memory_sessions": DOCUMENTS}))]
    assert len(found) == len(DOCUMENTS)
    for document, original in zip(found, DOCUMENTS, strict=True):
        plain = {k: ObjectKey(v) if isinstance(v, ObjectId) else v for k, v in original.items()}
        lists = {k: [ObjectKey(i) for i in v] for k, v in original.items() if isinstance(v, list)}
        assert document == plain | lists
        assert type(document["_id"]) is ObjectKey


@pytest.mark.parametrize("form", FORMATS)
async def test_reading_goes_on_after_any_place(tmp_path: Path, form: str) -> None:
    source = written(tmp_path, form, {"memory_sessions": DOCUMENTS})
    (part,) = await source.parts()
    all_of_it = await read(source)
    for number in (0, 1, 20, 39):
        rest = await read(source, part.name, all_of_it[number].place.cursor)
        assert [item.document for item in rest] == [item.document for item in all_of_it[number + 1 :]]
        assert [item.place.offset for item in rest] == [item.place.offset for item in all_of_it[number + 1 :]]


@pytest.mark.slow
async def test_a_live_server_gives_the_same_documents_from_any_place_on(server: str, tmp_path: Path) -> None:
    plain = [document | {"content": "a text"} for document in DOCUMENTS]
    await load(server, "plain", [("memory_sessions", plain), ("system_of_others", plain)])
    source = LiveSource(server, database="plain", batch=7)
    found = await read(source)
    dumped = await read(written(tmp_path, "dump", {"memory_sessions": sorted(plain, key=lambda d: d["_id"])}))
    assert [item.document for item in found] == [item.document for item in dumped]
    (part,) = await source.parts()
    assert (part.name, part.documents) == ("memory_sessions", 40)
    assert len(await read(source, part.name, found[24].place.cursor)) == 15
    await source.close()


async def test_a_live_server_s_ids_may_be_of_several_types(server: str) -> None:
    keys: list[Any] = [3, 2.5, "text", ObjectId(), True, at(1)]
    await load(server, "mixed", [("memory_sessions", [{"_id": key} for key in keys])])
    source = LiveSource(server, database="mixed")
    (part,) = await source.parts()
    found = await read(source)
    for number, item in enumerate(found):
        rest = await read(source, part.name, item.place.cursor)
        assert [one.document for one in rest] == [one.document for one in found[number + 1 :]]
    await source.close()


@pytest.mark.container
@pytest.mark.skipif(not docker_answers(), reason="no Docker engine answers")
async def test_the_official_server_gives_the_same_documents() -> None:
    with official() as url:
        await load(url, "eden", Legacy().collections())
        source = LiveSource(url, database="eden")
        with spooled() as spool:
            assert (await surveyed(source, spool)).accounts.source == Legacy().manifest().source
        await source.close()


@pytest.mark.slow
async def test_a_server_that_doesn_t_answer_is_an_error_without_its_address() -> None:
    source = LiveSource("mongodb://secret:word@%2Fnowhere%2Fmongo.sock/eden?serverSelectionTimeoutMS=50")
    with pytest.raises(SourceError, match="no answer") as caught:
        await source.parts()
    assert not re.search("secret|word|nowhere", str(caught.value))
    await source.close()


@pytest.mark.parametrize("url", ["mongodb://127.0.0.1:1", "postgres://x", "mongodb://a:b:c@x/y", "mongodb://"])
def test_a_url_that_names_no_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="names no database"):
        LiveSource(url)


@pytest.mark.parametrize("form", FORMATS)
async def test_every_format_comes_out_the_same(tmp_path: Path, form: str) -> None:
    legacy = Legacy(agents=1)
    FORMATS[form](tmp_path, legacy.collections())
    with spooled() as spool, spooled() as other:
        opened: Callable[[Path], Source] = DumpSource if "dump" in form else ExtendedJsonSource
        found = await surveyed(opened(tmp_path), spool)
        assert found.accounts.anomalies == legacy.manifest().anomalies
        FORMATS["dump"](tmp_path / "again", legacy.collections())
        assert found.fingerprint() == (await surveyed(DumpSource(tmp_path / "again"), other)).fingerprint()


async def test_a_live_server_comes_out_the_same(server: str, tmp_path: Path) -> None:
    legacy = Legacy(agents=1)
    await load(server, "whole", legacy.collections())
    FORMATS["dump"](tmp_path, legacy.collections())
    source = LiveSource(server, database="whole")
    with spooled() as spool, spooled() as other:
        found = await surveyed(source, spool)
        assert found.accounts.anomalies == legacy.manifest().anomalies
        assert found.fingerprint() == (await surveyed(DumpSource(tmp_path), other)).fingerprint()
    await source.close()


async def test_documents_on_several_lines_are_found_by_their_brackets(tmp_path: Path) -> None:
    options = json_util.RELAXED_JSON_OPTIONS
    pretty = "\n".join(json_util.dumps(d, indent=2, json_options=options) for d in DOCUMENTS)
    (tmp_path / "memory_sessions.json").write_text(pretty, "utf-8")
    found = await read(ExtendedJsonSource(tmp_path))
    assert [item.document["number"] for item in found] == list(range(40))
    rest = await read(ExtendedJsonSource(tmp_path), None, found[9].place.cursor)
    assert [item.document["number"] for item in rest] == list(range(10, 40))


async def test_newer_names_come_before_older_ones_and_what_others_need_first(tmp_path: Path) -> None:
    names = ("messages", "memory_sessions", "memory_user", "users3", "session_memories", "unknown", "memory2_facts")
    source = written(tmp_path, "dump", {name: [] for name in names})
    assert [part.name.partition(".")[0] for part in await source.parts()] == [
        "users3", "memory_user", "memory_sessions", "session_memories", "memory2_facts", "messages",
    ]  # fmt: skip


async def test_a_collection_may_be_called_otherwise(tmp_path: Path) -> None:
    FORMATS["dump"](tmp_path, [("memory_user_stage", [HOME.blob()])])
    (part,) = await DumpSource(tmp_path, names={"memory_user_stage": "memory_user"}).parts()
    assert part.collection == "memory_user"


@pytest.mark.parametrize(("kind", "form"), [("dump", "dump"), ("export", "relaxed array")])
async def test_a_source_is_opened_by_its_kind(tmp_path: Path, kind: SourceKind, form: str) -> None:
    FORMATS[form](tmp_path, [("users_of_stage", [HOME.person(HOME.user)])])
    source = open_source(kind, str(tmp_path), names={"users_of_stage": "users3"})
    assert [item.document["username"] for item in await read(source)] == ["mia"]
    await source.close()


async def test_a_live_source_is_only_read(server: str) -> None:
    await load(server, "watched", Legacy().collections())
    sent = Sent()
    monitoring.register(sent)
    try:
        source = open_source("live", f"{server.rstrip('/')}/watched")
        with spooled() as spool:
            await surveyed(source, spool)
        await source.close()
    finally:
        sent.is_open = False
    assert "find" in sent.names
    assert sent.names <= {"find", "getMore", "listCollections", "count", "endSessions", "killCursors"}


class Sent(monitoring.CommandListener):
    """The names of all commands, until it is closed: a listener stays registered."""

    def __init__(self) -> None:
        self.names, self.is_open = set[str](), True

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if self.is_open:
            self.names.add(event.command_name)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


WITHOUT_DRIVER = """
import sys
sys.modules["bson"] = sys.modules["pymongo"] = None
from memory_sql.importers.mongo import plan, survey
from memory_sql.importers.mongo.sources.select import open_source
try:
    open_source("dump", ".")
except Exception as error:
    print(type(error).__name__, error)
"""


def test_only_opening_a_source_needs_the_driver() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_DRIVER], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("ConfigurationError reading legacy memory needs pymongo")
    assert ended.stderr == ""


@pytest.mark.slow
async def test_small_documents_behind_a_long_one_are_found(tmp_path: Path) -> None:
    """What was read ahead for the long one isn't copied for each of them."""
    long = json.dumps([{"_id": 0, "content": 'a "quoted" \\ text ' * 200_000}, *({"_id": n} for n in range(1, 60_000))])
    (tmp_path / "memory_user.json").write_text(long)
    found = await listed(ExtendedJsonSource(tmp_path).read((await ExtendedJsonSource(tmp_path).parts())[0]))
    assert [item.document["_id"] for item in found if isinstance(item, Found)] == list(range(60_000))


# Hostile files


def frames(*documents: dict[str, Any]) -> list[bytes]:
    return [bson.encode(document) for document in documents]


GOOD = frames(*({"_id": n} for n in range(3)))
START = sum(map(len, GOOD))


def nested(depth: int) -> bytes:
    """By hand: no encoder goes so deep."""
    inner = b"\x05\0\0\0\0"
    for _ in range(depth):
        body = b"\x03a\0" + inner + b"\0"
        inner = (len(body) + 4).to_bytes(4, "little") + body
    return inner


# What follows the good documents, what the error says, and how many documents of those behind it are read all the same.
BROKEN_BSON = {
    "cut in a length": (b"\x20\0", "truncated", 0),
    "cut in a document": (bson.encode({"_id": 9, "content": "x" * 100})[:-30], "truncated", 0),
    "a length below the least": (b"\x04\0\0\0", "4 bytes", 0),
    "a negative length": (b"\xff\xff\xff\xff", "-1 bytes", 0),
    "a length over the limit": ((1 << 30).to_bytes(4, "little") + b"x" * 50, "limit", 0),
    "a length that ends elsewhere": (b"\x20" + bson.encode({"_id": 9, "content": "x" * 50})[1:], "wrong", 0),
    "an unknown type": (b"\x0c\0\0\0\x60a\0\0\0\0\0\0", "valid BSON", 3),
    "a length of a text that is too long": (b"\x10\0\0\0\x02a\0\xff\0\0\0abc\0\0", "valid BSON", 3),
    "nested too deeply": (nested(20_000), "nested|valid BSON", 3),
    "nested deeper than MongoDB takes": (nested(200), "nested", 3),
}


@pytest.mark.parametrize("case", BROKEN_BSON)
@pytest.mark.parametrize("packed", [False, True])
async def test_broken_bson_is_named_by_file_and_byte(tmp_path: Path, case: str, packed: bool) -> None:
    data, words, more = BROKEN_BSON[case]
    whole = b"".join([*GOOD, data, *(GOOD if more else [])])
    name = "memory_user.bson.gz" if packed else "memory_user.bson"
    (tmp_path / name).write_bytes(gzip.compress(whole) if packed else whole)
    with pytest.raises(SourceError, match=words) as caught:
        await everything(DumpSource(tmp_path))
    assert (caught.value.part, caught.value.offset) == (name, START)
    items = await everything(DumpSource(tmp_path, keep_going=True))
    assert [isinstance(item, Found) for item in items] == [True] * 3 + [False] + [True] * more
    (damaged,) = [item for item in items if isinstance(item, Damaged)]
    assert damaged.ends_part is (more == 0)


BROKEN_JSON = {
    "no json": (b"{nonsense}\n", "valid extended JSON", 3),
    "not a document": (b"[1, 2]\n", "isn't a document", 3),
    "a bare value": (b'"text"\n', "isn't a document", 3),
    "nested too deeply": (b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"\n", "nested", 3),
    "nested deeper than MongoDB takes": (b'{"a":' * 201 + b"1" + b"}" * 201 + b"\n", "nested", 3),
    "a number without end": (b'{"_id": ' + b"9" * 10_000 + b"}\n", "valid extended JSON", 3),
    "a wrapper of the wrong type": (b'{"_id": {"$numberLong": {}}}\n', "valid extended JSON", 3),
    "cut": (b'{"_id": {"$oid": "68b5', "valid extended JSON", 0),
}


@pytest.mark.parametrize("case", BROKEN_JSON)
async def test_a_broken_line_is_named_by_file_and_byte(tmp_path: Path, case: str) -> None:
    data, words, more = BROKEN_JSON[case]
    good = b"".join(b'{"_id": %d}\n' % n for n in range(3))
    (tmp_path / "memory_user.json").write_bytes(good + data + (good if more else b""))
    with pytest.raises(SourceError, match=words) as caught:
        await everything(ExtendedJsonSource(tmp_path))
    assert (caught.value.part, caught.value.offset) == ("memory_user.json", len(good))
    items = await everything(ExtendedJsonSource(tmp_path, keep_going=True))
    assert [isinstance(item, Found) for item in items] == [True] * 3 + [False] + [True] * more


@pytest.mark.parametrize(
    ("data", "words", "offset"),
    [
        (b'[{"_id": 1}, {"_id": ', "truncated", 13),
        (b'[{"_id": 1}, 5]', "begin", 13),
        (b'[{"_id": 1}, {"_id": "open', "truncated", 13),
        (b'[{"_id": 1}, {"_id": nonsense}, {"_id": 2}]', "valid extended JSON", 13),
    ],
)
async def test_a_broken_array_is_named_by_file_and_byte(tmp_path: Path, data: bytes, words: str, offset: int) -> None:
    (tmp_path / "memory_user.json").write_bytes(data)
    with pytest.raises(SourceError, match=words) as caught:
        await everything(ExtendedJsonSource(tmp_path))
    assert caught.value.offset == offset


@pytest.mark.parametrize("cut", [5, 15, -4])
async def test_a_truncated_or_damaged_pack_is_named(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress(b"".join(GOOD))
    (tmp_path / "memory_user.bson.gz").write_bytes(packed[:cut])
    with pytest.raises(SourceError, match=r"gzip|truncated"):
        await everything(DumpSource(tmp_path))
    (tmp_path / "memory_user.bson.gz").write_bytes(b"no gzip at all")
    with pytest.raises(SourceError, match="gzip"):
        await everything(DumpSource(tmp_path))


async def test_the_rest_of_the_files_goes_on(tmp_path: Path) -> None:
    source = written(
        tmp_path, "dump", {"users3": [HOME.person(HOME.user)], "memory_user": [], "memory_sessions": DOCUMENTS}
    )
    (tmp_path / "eden" / "memory_user.bson").write_bytes(b"\x20\0\0\0")
    source = DumpSource(tmp_path, keep_going=True)
    assert len([item for item in await everything(source) if isinstance(item, Found)]) == 1 + 40
    with spooled() as spool:
        accounts = (await surveyed(source, spool)).accounts
    assert [error.part for error in accounts.cut_off] == ["memory_user.bson"]
    assert list(accounts.unaccounted()) == []


async def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"".join(GOOD))
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "memory_user.bson").symlink_to(outside)
    with pytest.raises(SourceError, match=r"memory_user\.bson.*symbolic link"):
        await DumpSource(folder).parts()
    (folder / "memory_user.bson").unlink()
    os.mkfifo(folder / "memory_user.bson")
    with pytest.raises(SourceError, match="plain file"):
        await DumpSource(folder).parts()


async def test_a_link_costs_its_own_file_alone(tmp_path: Path) -> None:
    written(tmp_path, "dump", {"memory_user": [HOME.blob()], "memory_sessions": DOCUMENTS})
    (tmp_path / "eden" / "memory_agent.bson").symlink_to(tmp_path / "eden" / "memory_user.bson")
    (tmp_path / "eden" / "memory_user.metadata.json").write_text("no json")
    items = await everything(DumpSource(tmp_path, keep_going=True))
    assert [item.error.part for item in items if isinstance(item, Damaged)] == [
        "memory_user.metadata.json",
        "memory_agent.bson",
    ]
    assert len(items) == 2 + 40


async def test_a_file_that_becomes_a_link_after_it_was_found_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path, "dump", {"memory_user": []})
    (part,) = await source.parts()
    (tmp_path / "eden" / "memory_user.bson").unlink()
    (tmp_path / "eden" / "memory_user.bson").symlink_to(tmp_path)
    with pytest.raises(SourceError, match=re.escape("memory_user.bson")):
        await listed(source.read(part))


@pytest.mark.parametrize("name", ["../memory_user", "memory_agent", 5])
async def test_metadata_of_something_else_are_refused(tmp_path: Path, name: object) -> None:
    source = written(tmp_path, "dump", {"memory_user": []})
    (tmp_path / "eden" / "memory_user.metadata.json").write_text(json.dumps({"collectionName": name}))
    with pytest.raises(SourceError, match="metadata of something else"):
        await source.parts()


async def test_a_view_has_no_documents_of_its_own(tmp_path: Path) -> None:
    source = written(tmp_path, "dump", {"memory_user": []})
    (tmp_path / "eden" / "memory_user.metadata.json").write_text('{"type": "view"}')
    assert await source.parts() == ()


async def test_one_collection_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memory_user.bson").write_bytes(b"")
    (tmp_path / "memory_user.bson.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(SourceError, match="same collection"):
        await DumpSource(tmp_path).parts()


async def test_several_databases_in_a_folder_have_to_be_named(tmp_path: Path) -> None:
    for name in ("eden", "eden_stage"):
        FORMATS["dump"](tmp_path / name, [("memory_user", [])])
    with pytest.raises(SourceError, match="several databases: eden, eden_stage"):
        DumpSource(tmp_path)


async def test_a_folder_that_isn_t_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        DumpSource(tmp_path / "missing")


ODD: list[Any] = [
    None,
    "",
    "x",
    0,
    -1,
    2**62,
    1.5,
    float("nan"),
    True,
    [],
    [1],
    {},
    {"$oid": 5},
    {"a": {"b": []}},
    at(0),
]
ODD += [
    ObjectId(),
    b"\0",
    bson.Regex("("),
    bson.Decimal128("1"),
    bson.Timestamp(1, 1),
    bson.MinKey(),
    DatetimeMS(2**62),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
async def test_a_value_of_the_wrong_type_in_any_field_is_accounted_for(tmp_path: Path, value: Any) -> None:
    """And costs no document but its own."""
    makers: dict[str, Callable[[Home], dict[str, Any]]] = {
        "users3": lambda home: home.person(home.user),
        "sessions": lambda home: home.session_document(),
        "memory_user": lambda home: home.blob(),
        "memory_agent": lambda home: home.shard(),
        "memory_sessions": lambda home: home.directive(),
        "memory2_consolidated": lambda home: home.later_blob(),
        "memory2_reflections": lambda home: home.later("reflection", absorbed=True),
        "memory2_facts": lambda home: home.later("fact"),
    }
    odd: dict[str, list[dict[str, Any]]] = {name: [] for name in makers}
    for name, make in makers.items():
        for field in make(HOME):
            odd[name].append(make(Home((name, field))) | {field: value})
    source = written(tmp_path, "dump", odd)
    with spooled() as spool:
        found = await surveyed(source, spool)
        assert list(found.accounts.unaccounted()) == []
        assert sum(found.accounts.source.values()) == sum(map(len, odd.values()))
        assert all(row.content.strip() for row in found.observations())


@pytest.mark.slow
async def test_a_document_of_sixteen_megabytes_is_read(tmp_path: Path) -> None:
    text = "Mia sails. " * (16 * 1024 * 1024 // 11 - 100)
    found = await read(written(tmp_path, "packed dump", {"memory_user": [HOME.blob(content=text)]}))
    assert len(found[0].document["content"]) == len(text)
