"""Requests as an adversary, a proxy or a careless client sends them: what is in the path, the headers and the body."""

from __future__ import annotations

from urllib.parse import quote

from tests.asgi import Client
from tests.server.conftest import BASE, Served
from tests.server.test_identity import state

MIA = {"user_id": "mia"}
SAID = {**MIA, "messages": [{"id": "1", "role": "user", "content": "I prefer tea."}]}
FACT = b'{"user_id": "mia", "text": "x"}'

IDS = [
    "a/b",
    "/",
    "//",
    "a%2Fb",
    "..",
    ".",
    "../../etc",
    "Zo\u00eb",
    "\u6771\u4eac",
    "\U0001fad6",
    "a b",
    "a?b#c",
    "a+b&c=d;e",
    "%",
    "x" * 255,
    "\u00fc" * 255,
]
PATHS = {
    "/v1/agents/ada/conversations/%FF/messages": 400,  # would be read as U+FFFD, as any other such byte
    "/v1/agents/%C3%28/observations": 400,
    "/v1/agents/ada/conversations/%ED%B0%AF/messages": 400,  # a surrogate
    "/v1/agents/ada/conversations/%00/messages": 422,
    "/v1/agents/ada/conversations/a%0Ab/messages": 422,
    "/v1/agents/ada/conversations/e%CC%81/messages": 422,  # not in NFC
    "/v1/agents/ada/conversations/%E2%80%8B/messages": 422,
    "/v1/agents/ada/conversations/" + "x" * 256 + "/messages": 422,
    "/v1/agents/ada/conversations//messages": 404,
    "/v1/agents/ada%2Fconversations/c/messages": 404,
    "/v1/agents/eve%2F..%2Fada/conversations/c/messages": 403,
}
KINDS = {
    "text/plain": 415,
    "application/json; charset=utf-16": 415,
    "application/json; charset=latin-1": 415,
    "application/jsonx": 415,
    "application/x-www-form-urlencoded": 415,
    "multipart/form-data; boundary=x": 415,
    "": 415,
    "application/json, text/plain": 415,
    "application/json": 201,
    "application/json; charset=utf-8": 201,
    'APPLICATION/JSON;charset="UTF-8"': 201,
}
BODIES = {
    b'{"user_id": "jonas", "user_id": "mia", "text": "x"}': 400,
    b'{"user_id": "mia", "text": "x", "\\u0075ser_id": "jonas"}': 400,
    b'{"user_id": "mia", "text": "x", "metadata": {"a": 1, "a": 2}}': 400,
    b'{"user_id": "mia", "text": "x", "metadata": {"a": 1e400}}': 400,
    b'{"user_id": "mia", "text": "x", "metadata": {"a": Infinity}}': 400,
    b'{"user_id": "mia", "text": "x", "confidence": 1e400}': 400,
    b'{"user_id": "mia", "text": "x", "importance": -0.5}': 422,
    b'{"user_id": "mia", "text": "x", "until": "2026-02-30"}': 422,
    b'{"user_id": "mia", "text": "x", "until": "2026-03-06T10:00:00Z"}': 422,
    b'{"user_id": "mia", "text": "x", "until": 1772755200}': 422,
    b'{"user_id": "mia", "text": "x", "metadata": {"a": %s}}' % (b"9" * 5000): 400,
    b'{"user_id": "mia", "text": "x", "metadata": %s1%s}' % (b'{"a":' * 5000, b"}" * 5000): 400,
    b'{"user_id": "mia", "text": "x", "tags": ["\\ud800"]}': 400,
    b'{"user_id": "mia\\u0000", "text": "x"}': 422,
    b"\xef\xbb\xbf" + FACT: 400,
    FACT.decode().encode("utf-16"): 400,
    FACT + b" {}": 400,
    b'{"user_id": "mia", "text": "x", "__proto__": {}}': 422,
    b"null": 422,
}


async def everywhere(served: Served) -> Client:
    """With a host's key for all agents."""
    return served.nobody.with_key((await served.memory.keys.create("all", rights=["read", "write"])).secret)


async def test_any_id_can_stand_in_a_path(served: Served) -> None:
    """Encoded as usual; it is stored and answered as it was before."""
    host = await everywhere(served)
    for one in IDS:
        at = quote(one, safe="")
        place = f"/v1/agents/{at}/conversations/{at}/messages"
        added = await host("POST", place, SAID)
        assert (added.status, added.json.get("conversation_id")) == (201, one), added.text
        page = await host("GET", place, query=MIA)
        assert [message["conversation_id"] for message in page.json["items"]] == [one]
        replaced = await host("PUT", f"{place}/{at}", {**MIA, "message": {"role": "user", "content": "x"}})
        assert replaced.json["accepted"] == 1, replaced.text
        assert (await served.memory.admin.stats(agent_id=one)).messages == 2


async def test_path_that_names_nothing_is_refused(served: Served) -> None:
    for path, status in PATHS.items():
        answer = await served.host("POST", path, SAID)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), path
    assert (await served.host("GET", f"{BASE}/observations", query="user_id=%FF")).status == 400


async def test_header_that_is_given_twice_is_refused(served: Served) -> None:
    """A proxy may have checked the other one."""
    made = await served.host("POST", f"{BASE}/observations", {**MIA, "text": "x"})
    before = await state(served.memory)
    key = served.mia.headers["Authorization"].encode()
    answer = await served.host("GET", f"{BASE}/observations", query=MIA, more_headers=[("Authorization", key)])
    assert answer.status == 401
    place, tag = f"{BASE}/observations/{made.json['id']}/confirm", made.headers["etag"].encode()
    talk = f"{BASE}/conversations/c/messages"
    for at, body, name, values in (
        (place, MIA, "If-Match", (tag, b'"9"')),
        (place, MIA, "Content-Type", (b"application/json", b"text/plain")),
        (talk, SAID, "Idempotency-Key", (b"1", b"2")),
        (talk, SAID, "Idempotency-Key", (b"\xff",)),
    ):
        refused = await served.host("POST", at, body, more_headers=[(name, value) for value in values])
        assert refused.status == 422, (name, refused.text)
    framed = await served.host("POST", talk, SAID, headers={"Transfer-Encoding": "chunked"})
    assert (framed.status, framed.headers["connection"]) == (400, "close")
    assert await state(served.memory) == before


async def test_body_is_json_in_utf8_or_refused(served: Served) -> None:
    for kind, status in KINDS.items():
        body = '{"user_id": "mia", "text": "Zo\u00eb"}'.encode()
        answer = await served.host("POST", f"{BASE}/observations", body, headers={"Content-Type": kind})
        assert answer.status == status, kind
        assert status == 415 or answer.json["content"] == "Zo\u00eb"


async def test_json_that_parsers_read_differently_is_refused(served: Served) -> None:
    before = await state(served.memory)
    for body, status in BODIES.items():
        answer = await served.host("POST", f"{BASE}/observations", body)
        assert answer.status == status, (body[:80], answer.text)
        assert (await served.mia("POST", f"{BASE}/observations", body)).status in (status, 403)
    assert await state(served.memory) == before


async def test_other_methods(served: Served) -> None:
    for place in ("/live", "/health"):
        assert (await served.nobody("HEAD", place)).status == 200  # as monitoring asks
    for method in ("HEAD", "OPTIONS", "TRACE"):
        answer = await served.host(method, f"{BASE}/observations")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
