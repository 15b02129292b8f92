"""Each route once as it should go, and what it answers otherwise."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest

from memory_sql.config import Settings
from memory_sql.db.queries.requests import RequestKey, SpokenKey
from memory_sql.db.queries.reviews import (
    HeardByOneKey,
    HeldClaimKey,
    HeldContradictionKey,
    HeldTextKey,
    ReviewKey,
    parse_review_id,
)
from memory_sql.domain.keys import RIGHTS
from memory_sql.domain.message_shapes import IDS
from memory_sql.errors import DatabaseError
from memory_sql.languages.text import clean
from memory_sql.memory import Memory
from memory_sql.server import create_app
from memory_sql.server.app import openapi
from memory_sql.server.arguments import BY_NAME, CONDITIONS, WORDS, SomeText, schema_of
from memory_sql.server.calls import CALLS
from memory_sql.server.requests import Asked
from tests.asgi import lived
from tests.database import rows
from tests.server.conftest import BASE, Served

MIA = {"user_id": "mia"}
TEA = {"id": "m1", "role": "user", "content": "I prefer green tea."}
VISIT: tuple[tuple[str, str, Any, int, str], ...] = (  # method, path, query or body, status, what the answer contains
    ("PUT", "groups/harbor", {"display_name": "The harbour"}, 200, '"display_name":"The harbour"'),
    ("PUT", "groups/harbor/members/mia", None, 200, '"user_id":"mia"'),
    ("GET", "groups", {}, 200, "harbor"),
    ("GET", "groups/harbor/members", {}, 200, "mia"),
    ("POST", "conversations/monday/messages", {**MIA, "messages": [TEA]}, 201, '"accepted":1'),
    ("POST", "conversations/monday/messages", {**MIA, "messages": [TEA]}, 201, '"duplicates":1'),
    ("GET", "conversations/monday/messages", MIA, 200, "I prefer green tea."),
    ("POST", "conversations/monday/form", {}, 200, '"messages":1'),
    ("PUT", "conversations/monday/messages/m1", {**MIA, "message": {"role": "user", "content": "I prefer rum."}}, 200,
     '"replaced":["m1"]'),
    ("POST", "conversations/monday/form", {"again": False}, 200, '"messages":1'),
    ("POST", "observations", {**MIA, "text": "Mia sails a sloop.", "tags": ["boat"], "confidence": 0.5}, 201, '"version":2'),
    ("POST", "observations", {**MIA, "text": "Mia will paint.", "until": "2099-03-06"}, 201, '"until":"2099-03-06"'),
    ("GET", "observations", MIA, 200, "sloop"),
    ("POST", "context", {**MIA, "message": "Do you remember what I sail?"}, 200, "sloop"),
    ("POST", "digest", {**MIA, "query": "sloop", "budgets": {"total": {"items": 3}}}, 200, "sloop"),
    ("POST", "search", {**MIA, "query": "sloop", "explain": True}, 200, '"admitted":"words"'),
    ("GET", "entities", MIA, 200, '"items":['),
    ("GET", "entities/sloop", MIA, 200, '"observations":1'),
    ("GET", "episodes", MIA, 200, '"items":[]'),
    ("GET", "episodes/e1", MIA, 404, "NotFoundError"),
    ("GET", "topics", MIA, 200, '"term":"sloop"'),
    ("GET", "scopes", MIA, 200, '"kind":"individual"'),
    ("GET", "people", {}, 200, '"user_id":"mia"'),
    ("GET", "people/mia/export", {}, 200, '"type":"header"'),
    ("GET", "work/backlog", {}, 200, '"has_model":true'),
    ("GET", "work/costs", {"days": 7}, 200, '"items":[{"day":'),
    ("GET", "work/reviews", {}, 200, '"items":[]'),
    ("POST", "work/run", {"limit": 3}, 200, '"consolidated":['),
    ("POST", "work/recheck", {}, 200, "{"),
    ("POST", "work/embed", None, 200, '"complete":true'),
    ("GET", "stats", {}, 200, '"conversations":1'),
    ("GET", "settings", {}, 200, "{}"),
    ("POST", "propagate", {"dry_run": True}, 200, '"dry_run":true'),
    ("POST", "holds", {"user_id": "jonas", "reason": "Case 7"}, 201, '"hold_id":1'),
    ("GET", "holds", {}, 200, "Case 7"),
    ("DELETE", "holds/1", None, 200, "released_at"),
    ("POST", "work/reviews/o1-1>s2", {"accept": True}, 404, "NotFoundError"),
    ("DELETE", "groups/harbor/members/mia", None, 200, '"left_at"'),
)  # fmt: skip
ONE: tuple[tuple[str, str, Any, int, str], ...] = (
    ("GET", "{o}", MIA, 200, "sloop"),
    ("GET", "{o}/sources", MIA, 200, '"items":[]'),
    ("GET", "{o}/spread", MIA, 200, '"items":[]'),
    ("POST", "{o}/confirm", MIA, 200, '"verification":"confirmed"'),
    ("POST", "{o}/dispute", MIA, 200, '"verification":"disputed"'),
    ("POST", "{o}/feedback", {**MIA, "value": -0.5}, 204, ""),
    ("POST", "{o}/feedback", {**MIA, "value": 2}, 422, "from -1 to 1"),
    ("POST", "{o}/mark", {**MIA, "private": True}, 200, '"no_propagate":true'),
    ("POST", "{o}/mark", {**MIA, "policy": "protected"}, 200, '"no_propagate":true'),
    ("GET", "{o}", {**MIA, "explain": True}, 200, '"policy":"protected"'),
    ("POST", "{o}/resolve", {**MIA, "resolved": "fulfilled"}, 200, '"resolved":"fulfilled"'),
    ("POST", "{o}/resolve", {**MIA, "resolved": None}, 200, '"resolved":null'),
    ("POST", "{o}/quarantine", MIA, 200, "{o}"),
    ("POST", "{o}/unquarantine", MIA, 200, "{o}"),
    ("PATCH", "{o}", {**MIA, "text": "Mia sails a ketch."}, 200, "ketch"),
    ("POST", "{o}/reinstate", MIA, 200, '"status":"active"'),
)
SCOPE: tuple[tuple[str, str, Any, int, str], ...] = (
    ("GET", "{s}", {}, 200, '"settings"'),
    ("POST", "{s}/consolidate", None, 200, '"version":1'),
    ("GET", "{s}/history", MIA, 200, '"version":1'),
    ("GET", "{s}/diff", {**MIA, "from_version": 0, "to_version": 1}, 200, '"change":"added"'),
    ("POST", "{s}/undo", None, 200, '"reinstated"'),
)


async def visit(served: Served, steps: Any, under: str = "", **names: str) -> set[tuple[str, str]]:
    visited = set()
    for method, path, given, status, contains in steps:
        place = under + path.format(**names)
        asked = {"query": given} if method in ("GET", "DELETE") else {"body": given}
        answer = await served.host(method, f"{BASE}/{place}", **asked)
        wanted = contains.replace("{o}", names.get("o", ""))
        assert answer.status == status, (place, answer.text)
        assert wanted in answer.text, (place, answer.text)
        visited.add((method, answer.headers.get("content-type", "")))
    return visited


@pytest.mark.slow
async def test_every_route_answers(served: Served) -> None:
    await visit(served, VISIT)
    listed = await served.host("GET", f"{BASE}/observations", query=MIA)
    (one,) = [row for row in listed.json["items"] if "sloop" in row["content"]]
    await visit(served, ONE, "observations/", o=one["id"])
    await visit(served, SCOPE, "scopes/", s=one["scope"]["id"])
    dry = await served.host("POST", f"{BASE}/forget", {**MIA, "dry_run": True})
    assert dry.json["dry_run"] is True
    gone = await served.host("POST", f"{BASE}/forget", {**MIA, "reason": "Asked to."})
    assert gone.json["counts"]["observations"] >= 2
    assert (await served.host("GET", f"{BASE}/observations", query=MIA)).json == {"items": [], "next": None}
    ((actor,),) = await rows(served.memory, "SELECT DISTINCT actor FROM memory.events WHERE kind = 'forget'")
    assert actor == "chat"


def test_visit_leaves_no_route_out() -> None:
    steps = [*VISIT, *((m, f"observations/{p}") for m, p, *_ in ONE), *((m, f"scopes/{p}") for m, p, *_ in SCOPE)]
    visited = [(method, str(path)) for method, path, *_ in steps] + [("POST", "forget")]
    for call in CALLS:
        pattern = re.sub(r"\{\w+\}", "[^/]+", call.path)
        assert any(method == call.method and re.fullmatch(pattern, path) for method, path in visited), call.path


async def test_openapi_describes_each_route_with_an_example() -> None:
    described = openapi()
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) == len({one["operationId"] for one in operations}) == len(CALLS)
    for one in operations:
        assert one["summary"]
        assert one["security"]
        assert "application/problem+json" in one["responses"]["default"]["content"]
        if body := one.get("requestBody"):
            schema = body["content"]["application/json"]["schema"]
            assert schema["additionalProperties"] is False
            assert "agent_id" not in schema["properties"]
            assert "example" in body["content"]["application/json"] or not schema.get("required")
    assert '"$ref": "#/$defs' not in json.dumps(described)


async def test_pages_go_on_where_they_ended(served: Served) -> None:
    for n in range(5):
        await served.host("POST", f"{BASE}/observations", {**MIA, "text": f"Fact {n}."})
        body = {**MIA, "messages": [{"id": f"m{n}", "role": "user", "content": f"Said {n}."}]}
        await served.host("POST", f"{BASE}/conversations/c/messages", body)
    for place, field, first in (
        ("observations", "content", "Fact 4."),
        ("conversations/c/messages", "content", "Said 4."),
    ):
        seen, query = list[str](), {**MIA, "limit": "2"}
        while True:
            page = (await served.host("GET", f"{BASE}/{place}", query=query)).json
            seen += [item[field] for item in page["items"]]
            if (
                seen == [first, first.replace("4", "3")] and field == "content"
            ):  # it goes on though the last was forgotten
                await served.host("POST", f"{BASE}/forget", {**MIA, "query": "Fact 3", "source": "observe"})
            if page["next"] is None:
                break
            query["before"] = page["next"]
        assert [text[-2] for text in seen] == ["4", "3", "2", "1", "0"]
    for wrong in ("x", "W10", "WyIyMDI2Iiwi", "é"):
        answer = await served.host("GET", f"{BASE}/observations", query={**MIA, "before": wrong})
        assert (answer.status, answer.json["type"]) == (422, "urn:memory-sql:InputError")


async def test_version_that_was_read_guards_a_change(served: Served) -> None:
    made = await served.host("POST", f"{BASE}/observations", {**MIA, "text": "Mia likes tea."})
    place, tag = f"{BASE}/observations/{made.json['id']}", made.headers["etag"]
    assert (
        (await served.host("GET", place, query=MIA)).headers["etag"] == tag == '"2"'
    )  # who has observed it is an event
    confirmed = await served.host("POST", f"{place}/confirm", MIA, headers={"If-Match": tag})
    assert confirmed.headers["etag"] == '"3"'
    body = {**MIA, "text": "Mia likes rum."}
    old = await served.host("PATCH", place, body, headers={"If-Match": tag})
    assert (old.status, old.json["found"]) == (412, 3)
    for wrong in ('W/"3"', "3", '"x"', '"3", "4"', '"99999999999999"', ""):
        assert (await served.host("PATCH", place, body, headers={"If-Match": wrong})).status == 422
    assert (await served.host("PATCH", place, body, headers={"If-Match": '"3"'})).status == 200
    assert (await served.host("PATCH", place, body)).status == 409  # superseded by now
    assert (await served.host("POST", f"{BASE}/context", MIA, headers={"If-Match": tag})).status == 422


async def test_dry_run_guards_a_forgetting(served: Served) -> None:
    """For the host and for somebody whose key isn't told what others have said."""
    body, place = {**MIA, "source": "observe"}, f"{BASE}/forget"
    for ask in (served.host, served.mia):
        await served.host("POST", f"{BASE}/observations", {**MIA, "text": "Mia likes tea."})
        planned = await ask("POST", place, {**body, "dry_run": True})
        tag = planned.headers["etag"]
        assert (await ask("POST", place, {**body, "dry_run": True}, headers={"If-Match": tag})).headers["etag"] == tag
        await served.host("POST", f"{BASE}/observations", {**MIA, "text": "Mia likes rum."})
        old = await ask("POST", place, body, headers={"If-Match": tag})
        assert (old.status, old.json["type"]) == (412, "urn:memory-sql:StaleError")
        for wrong in (f"W/{tag}", tag.strip('"'), '"3"', f"{tag}, {tag}", ""):
            assert (await ask("POST", place, body, headers={"If-Match": wrong})).status == 422
        now = await ask("POST", place, {**body, "dry_run": True}, headers={"If-Match": "*"})
        done = await ask("POST", place, body, headers={"If-Match": now.headers["etag"]})
        assert (done.status, done.headers["etag"]) == (200, now.headers["etag"])
        assert len(done.json["observations"]) == 2


async def test_answer_to_a_write_says_where_the_database_is(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replica; and where the database is gone by then, what was written is told all the same."""
    async with Memory(database_url, read_url=database_url, settings=Settings(llm="offline")) as memory:
        key = await memory.keys.create("chat", rights=RIGHTS, agents=["ada"])
        async with lived(create_app(memory, mcp=False)) as nobody:
            host = nobody.with_key(key.secret)
            made = await host("POST", f"{BASE}/observations", {**MIA, "text": "Mia likes tea."})
            position = made.headers["memory-position"]
            assert int(position, 16) <= int(await memory.admin.position(), 16)
            for path in ("context", "digest", "search"):
                body = {**MIA, **({} if path == "context" else {"query": "tea"}), "after": position}
                read = await host("POST", f"{BASE}/{path}", body)
                assert (read.status, "memory-position" in read.headers) == (200, False)
                assert "likes tea" in read.text
                assert (await host("POST", f"{BASE}/{path}", {**body, "after": "0/x"})).status == 422

            async def gone(_: object) -> str:
                raise DatabaseError("the database is gone")

            monkeypatch.setattr("memory_sql.resources.admin.Admin.position", gone)
            made = await host("POST", f"{BASE}/observations", {**MIA, "text": "Mia likes rum."})
            assert (made.status, "memory-position" in made.headers) == (201, False)


def test_schema_of_a_text_takes_what_leaves_something_to_store() -> None:
    """The same characters count as nothing in JSON Schema as where a text is cleaned."""
    pattern = re.compile(schema_of(SomeText)["pattern"])
    for number in (*range(0xD800), *range(0xE000, 0x10000), *range(0x1F000, 0x1F100), *range(0xE0000, 0xE0100)):
        text = chr(number)
        assert bool(pattern.search(text)) == bool(clean(text)[0].strip()), hex(number)


async def test_ids_of_messages_may_be_numbers(served: Served) -> None:
    """As programs number what they have stored; a key of a user stays theirs."""
    place, said = f"{BASE}/conversations/c/messages", {"role": "user", "content": "I prefer tea."}
    for n, (given, kept) in enumerate(((7, "7"), (8.0, "8"), (-1, "-1"), (2**70, str(2**70)))):
        body = {"user_id": "12", "messages": [{**said, "id": given, "user_id": 12}]}
        assert (await served.host("POST", place, body)).json["accepted"] == 1
        listed = await served.host("GET", place, query={"user_id": "12"})
        assert (listed.json["items"][0]["id"], len(listed.json["items"])) == (kept, n + 1)
    answer = await served.mia("POST", place, {"messages": [{**said, "user_id": 12}]})
    assert answer.status == 403


OTHERS: tuple[dict[str, Any], ...] = (
    *({name: "4"} for name in ("id", *IDS)),
    {"id": 4},
    {"type": "human", "data": {"content": "x", "id": "4"}},
)
SAME: tuple[dict[str, Any], ...] = (
    {"id": 3},
    {"uuid": "3"},
    {"id": None},
    {"type": "human", "data": {"content": "I prefer gin."}},
)


@pytest.mark.parametrize("other", OTHERS)
async def test_body_that_names_another_message_than_the_path_replaces_nothing(
    served: Served, other: dict[str, Any]
) -> None:
    place, tea = f"{BASE}/conversations/c/messages", {"role": "user", "content": "I prefer tea."}
    await served.host("POST", place, {**MIA, "messages": [{**tea, "id": "3"}]})
    message = other if "data" in other else {"role": "user", "content": "I prefer rum.", **other}
    answer = await served.host("PUT", f"{place}/3", {**MIA, "message": message})
    assert (answer.status, "another id" in answer.json["detail"]) == (422, True), answer.text
    (kept,) = (await served.host("GET", place, query=MIA)).json["items"]
    assert (kept["id"], kept["content"]) == ("3", "I prefer tea.")


async def test_body_that_names_the_message_of_the_path_replaces_it(served: Served) -> None:
    place = f"{BASE}/conversations/c/messages"
    await served.host("POST", place, {**MIA, "messages": [{"role": "user", "content": "I prefer tea.", "id": "3"}]})
    for n, said in enumerate(SAME):
        message = said if "data" in said else {"role": "user", "content": f"I prefer rum {n}.", **said}
        answer = await served.host("PUT", f"{place}/3", {**MIA, "message": message})
        assert (answer.status, answer.json["replaced"]) == (200, ["3"]), answer.text


async def test_times_are_read_in_bodies_and_queries(served: Served) -> None:
    """What was observed on one day isn't known as of the day before."""
    said = {**MIA, "text": "Mia likes tea.", "observed_at": "2026-03-02T10:15:00.5+01:00"}
    made = await served.host("POST", f"{BASE}/observations", said)
    assert (made.status, made.json["observed_at"]) == (201, "2026-03-02T09:15:00.500000Z")
    for call in ("context", "digest", "search"):
        asked = {**MIA, "query": "tea"} if call != "context" else MIA
        then = await served.host("POST", f"{BASE}/{call}", {**asked, "as_of": "2020-01-01t00:00:00z"})
        assert then.status == 200, then.json
        assert "Mia likes tea." not in then.text
    for wrong in (1772446500, "2026-03-02", "2026-03-02T10:15:00", "2026-13-02T10:15:00Z"):
        answer = await served.host("POST", f"{BASE}/observations", {**said, "observed_at": wrong})
        assert (answer.status, answer.json["detail"].split(":")[0]) == (422, "observed_at")


async def test_request_to_forget_is_made_and_decided(served: Served) -> None:
    """It is the user's own words about what is theirs; what only another has said can't be asked for."""
    made = await served.memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")
    other = await served.memory.observe("Jonas likes rum.", agent_id="ada", user_id="jonas")
    asked = {**MIA, "request": "forget the tea"}
    assert (await served.host("POST", f"{BASE}/observations/{other.id}/quarantine", asked)).status == 404
    hidden = await served.mia("POST", f"{BASE}/observations/{made.id}/quarantine", {"request": "forget the tea"})
    assert hidden.status == 200, hidden.text
    assert hidden.json["observations"] == [made.id]
    for wrong in ({"request": "\u200b"}, {"request": "x", "reason": "y"}, {"request": "x", "conversation_id": "c"}):
        answer = await served.host("POST", f"{BASE}/observations/{made.id}/quarantine", {**MIA, **wrong})
        assert answer.status == 422
    (review,) = (await served.host("GET", f"{BASE}/work/reviews")).json["items"]
    assert (review["kind"], review["says"]) == ("request", "forget the tea")
    decided = await served.host("POST", f"{BASE}/work/reviews/{review['id']}", {"accept": True})
    assert decided.status == 204, decided.text
    assert (await served.host("GET", f"{BASE}/observations/{made.id}", query=MIA)).status == 404


KEYS = {
    "o12-3>s4": HeldClaimKey((12, 3), 4),
    "s12v3-4": HeldContradictionKey(12, 3, 4),
    "g12-3": HeardByOneKey(12, 3),
    "r17": HeldTextKey(17),
    "q12-3": RequestKey(12, 3),
    "q17": SpokenKey(17),
}


def test_every_id_of_a_review_can_be_written_in_a_path() -> None:
    """At any size that the database can give it."""
    assert {type(key) for key in KEYS.values()} == set(get_args(ReviewKey))
    pattern = re.compile(schema_of(BY_NAME["review_id"])["pattern"])
    for shown, key in KEYS.items():
        largest = re.sub(r"(?<=[rgqs])\d+|(?<=o)\d+", "9" * 18, re.sub(r"(?<=[v-])\d+", "9" * 9, shown))
        for one in (shown, largest):
            assert pattern.search(one), one
            assert str(parse_review_id(one)) == one
        assert (str(key), parse_review_id(shown)) == (shown, key)


async def test_request_that_was_spoken_can_be_decided(served: Served) -> None:
    await served.memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")
    answer = await served.host("POST", f"{BASE}/work/reviews/q17", {"accept": False})
    assert (answer.status, answer.json["what"]) == (404, "review")


async def test_repeated_call_with_its_key_stores_once(served: Served) -> None:
    place, said = f"{BASE}/conversations/c/messages", {"role": "user", "content": "I prefer tea."}
    for accepted in (1, 0):
        answer = await served.host("POST", place, {**MIA, "messages": [said]}, headers={"Idempotency-Key": "k1"})
        assert answer.json["accepted"] == accepted
    other = {**MIA, "messages": [{**said, "content": "I prefer rum."}]}
    assert (await served.host("POST", place, other, headers={"Idempotency-Key": "k1"})).status == 422
    answer = await served.host("POST", f"{BASE}/observations", {**MIA, "text": "x"}, headers={"Idempotency-Key": "k"})
    assert answer.status == 422


async def test_text_for_a_prompt(served: Served) -> None:
    await served.host("POST", f"{BASE}/observations", {**MIA, "text": "Mia\nlikes tea."})
    for path, body in (("context", {"message": "tea"}), ("digest", {"query": "tea"}), ("search", {"query": "tea"})):
        text = await served.host("POST", f"{BASE}/{path}", {**MIA, **body}, headers={"Accept": "text/plain"})
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        assert "likes tea." in text.text
        for accept in ("application/json, text/plain", "*/*", ""):
            assert (await served.host("POST", f"{BASE}/{path}", {**MIA, **body}, headers={"Accept": accept})).json


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("POST", "observations", b"{", 400),
        ("POST", "observations", b'{"text": "\xff"}', 400),
        ("POST", "observations", b'{"text": "\\ud800", "user_id": "mia"}', 400),
        ("POST", "observations", b'{"user_id": "mia", "text": "x", "confidence": NaN}', 400),
        ("POST", "observations", b"[" * 100_000, 400),
        ("POST", "observations", b"[]", 422),
        ("POST", "observations", b"", 422),
        ("POST", "observations", {"user_id": "mia", "text": "x", "agent_id": "bob"}, 422),
        ("POST", "observations", {"user_id": "mia", "text": "x", "nonsense": 1}, 422),
        ("POST", "observations", {"user_id": "mia", "text": " "}, 422),
        ("POST", "observations", {"user_id": "mia", "text": "\x1f\u200b"}, 422),
        ("PUT", "groups/g", {"display_name": "\x1f"}, 422),
        ("POST", "observations", {"user_id": " mia", "text": "x"}, 422),
        ("POST", "observations", {"user_id": 7, "text": "x"}, 422),
        ("POST", "observations", {"user_id": "mia", "text": "x", "collective": "yes"}, 422),
        ("POST", "observations", {"user_id": "mia", "text": "x", "observed_at": "2026-01-01T00:00:00"}, 422),
        ("POST", "observations", {"text": "x"}, 422),
        ("POST", "conversations/c/messages", {"user_id": "mia", "messages": [{"role": "king", "content": ""}]}, 422),
        ("POST", "conversations/c/messages", {"user_id": "mia", "messages": [7]}, 422),
        (
            "POST",
            "conversations/c/messages",
            {"user_id": "mia", "messages": [{"role": "user", "content": "", "id": 1.5}]},
            422,
        ),
        (
            "POST",
            "conversations/c/messages",
            {"user_id": "mia", "messages": [{"role": "user", "content": "", "name": 0}]},
            422,
        ),
        ("POST", "forget", {}, 422),
        ("POST", "forget", {"user_id": "mia", "everything": True}, 422),
        ("GET", "observations?user_id=mia&user_id=bo", None, 404),
        ("GET", "observations/12", None, 422),
        ("GET", "observations/o1-1", None, 422),
        ("GET", "nowhere", None, 404),
        ("DELETE", "observations", None, 405),
    ],
)
async def test_wrong_request_is_answered_as_a_problem(
    served: Served, method: str, path: str, sent: Any, status: int
) -> None:
    answer = await served.host(method, f"{BASE}/{path}", sent, headers={"X-Request-Id": "seen-1"})
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    told = answer.json
    assert told.keys() >= {"type", "title", "status", "detail", "request_id"}
    assert (told["status"], told["request_id"], answer.headers["x-request-id"]) == (status, "seen-1", "seen-1")
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("method", "path", "sent", "detail"),
    [
        ("POST", "observations", {**MIA, "text": "   "}, "text: needs some text"),
        ("POST", "observations", {**MIA, "text": "x", "category": "A b"}, "category: is one word of a-z, 0-9, _ and -"),
        ("PUT", "groups/g", {"display_name": "\x1f"}, "display_name: needs some text"),
        (
            "POST",
            "work/reviews/17",
            {"accept": True},
            "review_id: must look like o12-3>s4, s12v3-4, g12-3, r17, q12-3 or",
        ),
        ("GET", "observations/12", None, "observation_id: must look like o12-3"),
        ("GET", "episodes/12", None, "episode_id: must look like e12"),
        ("GET", "scopes/12", None, "scope_id: must look like s12"),
    ],
)
async def test_what_doesnt_match_is_told_in_words(
    served: Served, method: str, path: str, sent: Any, detail: str
) -> None:
    answer = await served.host(method, f"{BASE}/{path}", sent)
    assert answer.status == 422
    assert answer.json["detail"].startswith(detail)
    tagged = await served.host("PATCH", f"{BASE}/observations/o1-1", {**MIA, "text": "x"}, headers={"If-Match": "3"})
    assert (tagged.status, tagged.json["detail"]) == (422, "If-Match: must be an ETag as it was given, or *")


def test_no_pattern_is_shown_to_a_caller() -> None:
    """Every pattern of a parameter has its words."""
    for call in CALLS:
        asked = Asked(call)
        bodies = {name: one for name, one in asked.parameters.items() if name not in CONDITIONS}
        for kind, _ in (*asked.in_path.values(), *bodies.values()):
            assert _patterns(schema_of(kind)) <= WORDS.keys()


def _patterns(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_patterns, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    return own.union(*map(_patterns, schema.values()))


@pytest.mark.parametrize(
    ("method", "path", "sent", "detail"),
    [
        ("POST", "forget?dry_run=true", MIA, "dry_run: it belongs in the body"),
        ("POST", "conversations/c/messages?wait=true", {**MIA, "messages": []}, "wait: it belongs in the body"),
        ("POST", "search?secret=x", {**MIA, "query": "tea"}, "what is in the query: it belongs in the body"),
        ("GET", "observations?user_id=mia", {"limit": 1}, "the body: this request takes none"),
        ("DELETE", "groups/g/members/mia", {"forget": True}, "the body: this request takes none"),
        ("POST", "scopes/s1/consolidate", {"force": True}, "the body: this request takes none"),
    ],
)
async def test_what_stands_where_nobody_reads_it_is_refused(
    served: Served, method: str, path: str, sent: Any, detail: str
) -> None:
    await served.memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")
    path, _, query = path.partition("?")
    answer = await served.host(method, f"{BASE}/{path}", sent, query=query)
    assert answer.status == 422
    assert answer.json["detail"].startswith(detail)
    assert len(await served.memory.observations.list(agent_id="ada", user_id="mia")) == 1


async def test_empty_body_may_stand_anywhere(served: Served) -> None:
    for body in (b"", b"{}", b" {} "):
        assert (await served.host("GET", f"{BASE}/observations", body, query=MIA)).status == 200


async def test_query_names_each_parameter_once(served: Served) -> None:
    for query in ([("user_id", "mia"), ("user_id", "bo")], [("user_id", "mia"), ("limit", "0")], [("who", "mia")]):
        answer = await served.host("GET", f"{BASE}/observations", query=query)
        assert answer.status == 422
        assert "bo" not in answer.text
    answer = await served.host("POST", f"{BASE}/context", b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status == 415
