"""Who asks decides what is answered: forged names, foreign keys, and what an answer gives away."""

from __future__ import annotations

import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI, Request

from memory_sql.memory import Memory
from memory_sql.server import Identity, create_app, router
from memory_sql.server.calls import CALLS
from memory_sql.server.identity import Buckets
from tests.asgi import Answer, Client, lived
from tests.database import rows, statements
from tests.factories import Clock
from tests.server.conftest import ADA, BASE, Served

CANARY = "zanzibar"


async def plant(memory: Memory) -> dict[str, str]:
    """What Jonas and another agent know, each text with a canary; and ids to try."""
    said = [{"id": "m1", "role": "user", "content": f"I prefer {CANARY} tea."}]
    await memory.groups.create("theirs", **ADA, display_name=f"The {CANARY} club")
    await memory.groups.add_member("theirs", "jonas", **ADA)
    await memory.add(said, **ADA, user_id="jonas", conversation_id="theirs")
    his = await memory.observe(f"Jonas sails to {CANARY}.", **ADA, user_id="jonas", tags=[CANARY])
    shared = await memory.observe(f"They meet in {CANARY}.", **ADA, group_id="theirs", user_id="jonas")
    await memory.scopes.consolidate(**ADA, scope_id=his.scope.id)
    await memory.holds.place(**ADA, user_id="jonas", reason=CANARY)
    await memory.observe(f"Bob saw {CANARY}.", agent_id="bob", user_id="mia")
    await memory.observe("Mia likes rum.", **ADA, user_id="mia")
    return {"his": his.id, "shared": shared.id, "scope": his.scope.id}


def places(ids: dict[str, str], user: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Each route, asked for what is Jonas's."""
    names = {
        "observation_id": ids["his"], "scope_id": ids["scope"], "conversation_id": "theirs", "group_id": "theirs",
        "user_id": user, "hold_id": "1", "review_id": "o1-1>s2", "message_id": "m1",
        "name": "theirs", "episode_id": "e1",
    }  # fmt: skip
    bodies: dict[str, dict[str, Any]] = {
        "add": {"messages": [{"id": "m1", "role": "user", "content": "Hi."}]},
        "add.replace": {"message": {"role": "user", "content": "Hi."}},
        "observe": {"text": "I am in.", "group_id": "theirs"},
        "observations.update": {"text": "It isn't so."},
        "search": {"query": "tea sails meet"},
        "context": {"message": "Do you remember the tea, who sails, where they meet?"},
        "digest": {"query": "tea sails meet"},
        "forget": {"tag": CANARY},
        "work.decide": {"accept": True},
    }
    found = []
    for call in CALLS:
        body = bodies.get("add.replace" if call.fixed else call.target, {})
        if "user_id" not in call.path and call.target not in (
            "conversations.form", "scopes.get", "scopes.consolidate", "scopes.undo", "scopes.propagate", "groups.create",
            "groups.members", "people.list", "holds.list", "holds.release", "work.backlog", "work.reviews", "work.decide",
            "work.embed", "run_due", "admin.stats", "admin.settings",
        ):  # fmt: skip
            body = {**body, "user_id": user}
        found.append((call.method, call.path.format(**names), body))
    return found


async def ask(client: Client, method: str, path: str, given: dict[str, Any], base: str = BASE) -> Answer:
    if method in ("GET", "DELETE"):
        return await client(method, f"{base}/{path}", query=given)
    return await client(method, f"{base}/{path}", given)


def told(answer: Answer) -> tuple[int, dict[str, Any]]:
    """All but what differs with each request."""
    return answer.status, {name: value for name, value in answer.json.items() if name != "request_id"}


async def state(memory: Memory) -> object:
    return [
        await rows(memory, "SELECT * FROM memory.v_observations ORDER BY 1, 2"),
        await rows(memory, "SELECT * FROM memory.v_messages ORDER BY 1, 2, 3"),
        await rows(memory, "SELECT * FROM memory.members ORDER BY 1, 2, 3"),
    ]


async def test_key_that_isnt_accepted_is_told_nothing(database_url: str) -> None:
    clock = Clock()
    async with Memory(database_url, clock=clock) as memory:
        ids = await plant(memory)
        ends = clock() + timedelta(minutes=1)
        expired = await memory.keys.create("expired", rights=["read"], expires_at=ends)
        revoked = await memory.keys.create("revoked", rights=["read"])
        await memory.keys.revoke(revoked.key_id)
        clock.goes_on(minutes=2)
        async with lived(create_app(memory)) as nobody:
            unknown = revoked.secret[:-4] + "aaaa"
            keys = [nobody.with_key(secret) for secret in (expired.secret, revoked.secret, unknown, "x", "\u00e9" * 9)]
            basic = Client(nobody.app, {"Authorization": f"Basic {revoked.secret}"})
            for method, path, given in places(ids, "jonas"):
                answers = [await ask(client, method, path, given) for client in (nobody, basic, *keys)]
                assert {answer.status for answer in answers} == {401}
                assert all(answer.headers["www-authenticate"] == "Bearer" for answer in answers)
                assert all(told(answer) == told(answers[0]) for answer in answers)


async def test_another_agents_key_is_refused_alike_for_all(served: Served) -> None:
    ids = await plant(served.memory)
    other = await served.memory.keys.create("other", rights=["read", "write", "forget", "admin"], agents=["eve"])
    few = await served.memory.keys.create("few", rights=["forget"], agents=["ada"])
    before, seen = await state(served.memory), []
    for method, path, given in places(ids, "jonas"):
        seen.append(await ask(served.nobody.with_key(other.secret), method, path, given))
        seen.append(await ask(served.nobody.with_key(other.secret), method, path, given, "/v1/agents/nowhere"))
        if path != "forget":
            seen.append(await ask(served.nobody.with_key(few.secret), method, path, given))
    assert {answer.status for answer in seen} == {403}
    assert all(told(answer) == told(seen[0]) for answer in seen)
    assert await state(served.memory) == before


@pytest.mark.slow
async def test_users_key_sees_and_changes_nothing_of_others(served: Served) -> None:
    """By any route, with their own name, with another's, and with none."""
    ids = await plant(served.memory)
    before = await state(served.memory)
    for user in ("jonas", "mia", None):
        for method, path, given in places(ids, user or "mia"):
            if user is None:
                given.pop("user_id", None)
            answer = await ask(served.mia, method, path, given)
            assert CANARY not in answer.text, (method, path, user)
            assert "bob" not in answer.text.lower()
            if user == "jonas":
                assert answer.status in (403, 404), (method, path, answer.text)
            assert answer.status in (200, 403, 404, 422)
    assert await state(served.memory) == before
    assert (await ask(served.mia, "GET", "observations", {}, "/v1/agents/bob")).status == 403


async def pairs(memory: Memory) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Requests of Mia's for what is Jonas's, and for what isn't there."""
    ids = await plant(memory)
    await memory.groups.create("ours", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("ours", user, **ADA)
    shared = await memory.observe("Jonas brings the rope.", **ADA, group_id="ours", user_id="jonas")
    said = {"messages": [{"id": "1", "role": "user", "content": "Hi."}]}
    one, nothing = f"observations/{ids['his']}", "observations/o999-1"
    return [
        ("GET", one, nothing, {}),
        ("GET", f"{one}/sources", f"{nothing}/sources", {}),
        ("PATCH", one, nothing, {"text": "x"}),
        ("PATCH", f"observations/{shared.id}", nothing, {"text": "x"}),
        ("POST", f"{one}/confirm", f"{nothing}/confirm", {}),
        ("POST", f"{one}/dispute", f"{nothing}/dispute", {}),
        ("POST", f"{one}/feedback", f"{nothing}/feedback", {"value": 1}),
        ("POST", f"{one}/reinstate", f"{nothing}/reinstate", {}),
        ("POST", f"{one}/resolve", f"{nothing}/resolve", {"resolved": "expired"}),
        ("POST", f"{one}/unquarantine", f"{nothing}/unquarantine", {}),
        ("POST", f"observations/{shared.id}/quarantine", f"{nothing}/quarantine", {}),
        ("POST", f"observations/{shared.id}/quarantine", f"{nothing}/quarantine", {"request": "forget it"}),
        ("POST", f"observations/{shared.id}/mark", f"{nothing}/mark", {"private": True}),
        ("POST", "conversations/theirs/messages", "conversations/new/messages", said),
        ("GET", "conversations/theirs/messages", "conversations/new/messages", {}),
        ("GET", "groups/theirs/members", "groups/new/members", {}),
        ("GET", f"scopes/{ids['scope']}/diff", "scopes/s999/diff", {}),
        ("GET", f"scopes/{ids['scope']}/history", "scopes/s999/history", {}),
        ("POST", "forget", "forget", {"observation_id": [ids["his"], "o999-1"]}),
        ("POST", "forget", "forget", {"observation_id": [shared.id, "o999-1"]}),
        ("POST", "observations", "observations", {"text": "x", "group_id": ["theirs", "new"]}),
        ("POST", "observations", "observations", {"text": "x", "conversation_id": ["theirs", "new"]}),
        ("POST", "context", "context", {"message": "tea", "conversation_id": ["theirs", "new"]}),
        ("POST", "search", "search", {"query": "tea", "conversation_id": ["theirs", "new"]}),
    ]  # fmt: skip


def either(given: dict[str, Any], which: int) -> dict[str, Any]:
    """A list that isn't of messages says what differs in the body."""
    return {k: v[which] if isinstance(v, list) and k != "messages" else v for k, v in given.items()}


def renamed(told: object, names: object, into: object) -> object:
    """With the ids of one request in place of those of the other."""
    text = json.dumps(told)
    for name, instead in zip(*(re.findall(r"[\w-]+", json.dumps(one)) for one in (names, into)), strict=True):
        if name != instead:
            text = text.replace(name, instead)
    return json.loads(text)


@pytest.mark.slow
async def test_what_isnt_there_and_what_isnt_theirs_look_the_same(served: Served) -> None:
    """In the answer, and in what the database is asked, so also in time (benchmarks/hidden.py)."""
    for method, theirs, nowhere, given in await pairs(served.memory):
        first, second = either(given, 0), either(given, 1)
        await ask(served.mia, method, theirs, first)  # what is asked once is known from then on
        with statements(served.memory) as of_theirs:
            one = await ask(served.mia, method, theirs, first)
        with statements(served.memory) as of_nothing:
            other = await ask(served.mia, method, nowhere, second)
        assert one.status == other.status, (theirs, one.text, other.text)
        assert renamed(told(other)[1], [nowhere, second], [theirs, first]) == told(one)[1], theirs
        assert of_theirs == of_nothing, (method, theirs)
    (shared,) = [one for one in await served.memory.observations.list(**ADA, user_id="mia") if "rope" in one.content]
    assert (shared.status, shared.no_propagate) == ("active", False)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("observations", {"text": "x", "user_id": "jonas"}),
        ("observations", {"text": "x", "collective": True}),
        ("observations", {"text": "x", "scope_kind": "guideline"}),
        ("observations", {"text": "x", "scope_kind": "agent"}),
        ("conversations/mine/messages", {"messages": [{"role": "user", "content": "x", "user_id": "jonas"}]}),
        ("conversations/mine/messages", {"messages": [{"role": "user", "content": "x", "userId": "jonas"}]}),
        ("conversations/mine/messages", {"messages": [{"type": "human", "content": "x", "userId": "jonas"}]}),
        (
            "conversations/mine/messages",
            {"messages": [{"type": "human", "data": {"content": "x", "user_id": "jonas"}}]},
        ),
        ("conversations/mine/messages", {"messages": [{"role": "user", "content": "x"}], "group_ids": ["theirs"]}),
        ("conversations/mine/messages", {"messages": [], "excluded": True}),
        ("conversations/mine/form", {}),
        ("forget", {"everything": True}),
        ("forget", {"user_id": "jonas"}),
        ("forget", {"about": True}),
        ("forget", {"conversation_id": "mine", "message_id": "1"}),
        ("propagate", {}),
        ("observations/o1-1/confirm", {"actor": "jonas"}),
    ],
)
async def test_users_key_speaks_for_nobody_else(served: Served, path: str, body: dict[str, Any]) -> None:
    await plant(served.memory)
    said = [{"id": "1", "role": "user", "content": "Hi."}]
    await served.memory.add(said, **ADA, user_id="mia", conversation_id="mine")
    before = await state(served.memory)
    assert (await served.mia("POST", f"{BASE}/{path}", body)).status == 403
    assert await state(served.memory) == before


async def test_users_key_does_what_is_theirs(served: Served) -> None:
    said = [{"id": "1", "role": "user", "content": "I prefer tea."}]
    await served.memory.add(said, **ADA, user_id="mia", conversation_id="mine")
    more = {"messages": [{"id": "2", "role": "user", "content": "With milk.", "user_id": "mia"}]}
    assert (await served.mia("POST", f"{BASE}/conversations/mine/messages", more)).json["accepted"] == 1
    made = await served.mia("POST", f"{BASE}/observations", {"text": "Mia likes rum."})
    assert made.status == 201
    changed = await served.mia("PATCH", f"{BASE}/observations/{made.json['id']}", {"text": "Mia likes ale."})
    assert changed.json["content"] == "Mia likes ale."
    export = await served.mia("GET", f"{BASE}/people/mia/export")
    assert (export.status, export.headers["content-type"]) == (200, "application/x-ndjson")
    assert "Mia likes ale." in export.text
    assert (await served.mia("GET", f"{BASE}/people/jonas/export")).status == 403
    assert (await served.mia("POST", f"{BASE}/forget", {})).json["counts"]["observations"] == 2
    assert (await served.mia("GET", f"{BASE}/observations")).json["items"] == []


async def test_routes_in_a_hosts_application(served: Served) -> None:
    """Its own sign-in decides, its own errors stay its own."""
    asked = list[str]()

    async def identify(request: Request) -> Identity | None:
        asked.append(request.url.path)
        name = request.headers.get("x-user")
        return Identity(name, None, frozenset({"read"}), name) if name else None

    app = FastAPI()
    app.include_router(router(lambda _: served.memory, identify), prefix="/memory")
    await served.memory.observe("Mia likes rum.", **ADA, user_id="mia")
    client = Client(app, {"X-User": "mia"})
    assert "rum" in (await client("GET", f"/memory{BASE}/observations")).text
    assert "rum" not in (await Client(app, {"X-User": "bo"})("GET", f"/memory{BASE}/observations")).text
    refused = await Client(app)("GET", f"/memory{BASE}/observations")
    assert (refused.status, refused.headers["content-type"]) == (401, "application/problem+json")
    assert (await client("POST", f"/memory{BASE}/observations", {"text": "x"})).status == 403
    assert (await client("GET", "/memory/nowhere")).json == {"detail": "Not Found"}
    assert len(asked) == 4


async def test_key_has_so_many_requests_a_minute(database_url: str) -> None:
    async with Memory(database_url) as memory:
        key = await memory.keys.create("chat", rights=["admin"])
        async with lived(create_app(memory, requests_per_minute=3)) as nobody:
            client = nobody.with_key(key.secret)
            answers = [await client("GET", f"{BASE}/settings") for _ in range(4)]
            assert [answer.status for answer in answers] == [200, 200, 200, 429]
            assert int(answers[3].headers["retry-after"]) in range(1, 21)


def test_bucket_fills_evenly() -> None:
    now = [0.0]
    buckets = Buckets(60, lambda: now[0])
    assert [buckets.take(1) for _ in range(60)] == [0.0] * 60
    assert buckets.take(1) == pytest.approx(1.0)
    assert buckets.take(2) == 0.0
    now[0] = 1.5
    assert buckets.take(1) == 0.0
    assert buckets.take(1) == pytest.approx(0.5)


async def test_unexpected_error_logs_and_tells_no_text(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(served.memory, "context", fail)
    with caplog.at_level(logging.INFO):
        answer = await served.host("POST", f"{BASE}/context", {"user_id": "mia"})
    assert (answer.status, answer.json["type"]) == (500, "urn:memory-sql:InternalError")
    assert CANARY not in answer.text + caplog.text
    assert "failed with RuntimeError" in caplog.text
    assert answer.json["request_id"] in caplog.text
    assert "mia" not in caplog.text


async def test_large_body_is_refused_before_it_is_read(served: Served) -> None:
    taken = 0

    def parts() -> Any:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b" " * 65536

    place = f"{BASE}/observations"
    chunked = await served.host("POST", place, parts=parts())
    said = await served.host("POST", place, b" ", headers={"content-length": str(2**30)})
    for answer in (chunked, said):
        assert (answer.status, answer.headers["content-type"]) == (413, "application/problem+json")
    assert taken == 17
