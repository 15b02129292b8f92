"""The inspector: who gets in, what its pages let nobody do, and what remembered text can't do in them."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any, NamedTuple

import pytest

from memory_sql.config import Settings
from memory_sql.domain.ids import parse_observation_id
from memory_sql.domain.keys import RIGHTS, hash_of
from memory_sql.domain.links import Link, code_of, new_link, parts_of, told_of
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, StaleError
from memory_sql.memory import Memory
from memory_sql.server import create_app
from memory_sql.server.pages import sessions
from tests.asgi import Answer, Client, lived
from tests.browsing import Browser, value_of, words_of
from tests.database import rows, statements
from tests.factories import Clock, message
from tests.fakes import HOPELESS, Scripted
from tests.server.conftest import ADA
from tests.server.test_identity import CANARY, plant

SIGNAL = "Actually, I prefer tea."
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
MARKUP = "<script>alert(1)</script></textarea></details><img src=x onerror=alert(2)>\"'&{{7*7}}\u202eevil"
HOSTILE = f"{MARKUP} {'w' * 7800}"
MIA = "/agents/ada/people/mia"
JONAS = "/agents/ada/people/jonas"


class Inspected(NamedTuple):
    memory: Memory
    client: Client
    host_secret: str
    mia_secret: str
    host: Browser
    mia: Browser


@pytest.fixture
async def inspected(database_url: str) -> AsyncIterator[Inspected]:
    """Signed in with the key of a host, for ada, and with the key of mia."""
    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        host = await memory.keys.create("chat", rights=RIGHTS, agents=["ada", "bob"])
        mia = await memory.keys.create("hers", rights=["read", "write", "forget"], agents=["ada"], user_id="mia")
        async with lived(create_app(memory, mcp=False)) as client:
            browsers = Browser(client), Browser(client)
            for browser, key in zip(browsers, (host, mia), strict=True):
                assert (await browser.sign_in(key.secret)).status == 303
            yield Inspected(memory, client, host.secret, mia.secret, *browsers)
        assert await memory.admin.verify() == []


async def known(memory: Memory) -> dict[str, str]:
    """What Mia, Jonas and their group have said; ids by a word."""
    await memory.groups.create("harbour", **ADA, display_name="The harbour")
    for user in ("mia", "jonas"):
        await memory.groups.add_member("harbour", user, **ADA)
    said = [{"id": "m1", "role": "user", "content": "I prefer green tea, and never before ten."}]
    await memory.add(said, **ADA, user_id="mia", conversation_id="monday")
    formed = await memory.conversations.form(**ADA, conversation_id="monday")
    tea = formed.observations[0]
    await memory.scopes.consolidate(**ADA, scope_id=tea.scope.id)
    boat = await memory.observe("Mia sails a red boat.", **ADA, user_id="mia")
    rope = await memory.observe("Jonas brings the rope.", **ADA, group_id="harbour", user_id="jonas")
    return {"tea": tea.id, "scope": tea.scope.id, "boat": boat.id, "rope": rope.id, "group": rope.scope.id}


def pages_of(ids: dict[str, str], person: str = MIA) -> list[str]:
    """Every page that a key of the host opens."""
    return [
        "/",
        "/agents/ada",
        person,
        f"{person}/scopes/{ids['scope']}",
        f"{person}/scopes/{ids['scope']}?from=0&to=1",
        f"{person}/observations",
        f"{person}/observations?query=tea",
        f"{person}/observations?scope={ids['scope']}",
        f"{person}/observations/{ids['tea']}",
        f"{person}/ask",
        "/agents/ada/work",
        "/agents/ada/groups",
        "/agents/ada/groups/harbour",
        "/agents/ada/holds",
    ]


async def asked(browser: Browser, path: str) -> Answer:
    path, _, query = path.partition("?")
    return await browser.get(path, dict(part.split("=") for part in query.split("&")) if query else None)


def checked(answer: Answer) -> None:
    """Every page, whatever it shows, has these headers and nothing that could run."""
    headers = answer.headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    page = answer.text
    assert "<script" not in page
    assert not re.search(r"<[^>]*\s(?:on\w+|style)=", page)
    assert page.count("<h1") == 1
    assert '<html lang="en">' in page
    assert len(answer.body) <= 200_000


# Who gets in


async def test_sign_in_gives_a_cookie_that_no_script_and_no_other_site_has(inspected: Inspected) -> None:
    browser = Browser(inspected.client)
    assert 'name="key"' in (await browser.get("/")).text
    answer = await browser.sign_in(inspected.host_secret)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert {"httponly", "samesite=strict", "path=/", "max-age=28800"} <= set(cookie.lower().split("; "))
    assert "Secure" not in cookie  # on loopback, where nothing encrypts
    assert inspected.host_secret not in cookie
    assert "ada" in words_of(await browser.get("/"))


async def test_cookie_is_secure_off_loopback(inspected: Inspected) -> None:
    client = Client(inspected.client.app, {"host": "memory.example.com"})
    assert "; Secure" in (await Browser(client).sign_in(inspected.host_secret)).headers["set-cookie"]


async def test_wrong_key_gets_nowhere(inspected: Inspected) -> None:
    browser = Browser(inspected.client)
    for wrong in ("", "ms_" + "x" * 43, "' OR 1=1"):
        answer = await browser.sign_in(wrong)
        assert answer.status == 401
        checked(answer)
        assert browser.cookie is None


async def test_session_is_new_with_each_sign_in(inspected: Inspected) -> None:
    """Fixation: a cookie that somebody else has planted never becomes a session, and the earlier session ends."""
    planted = Browser(inspected.client, f"{sessions.COOKIE}=planted")
    await planted.sign_in(inspected.host_secret)
    assert planted.cookie != f"{sessions.COOKIE}=planted"
    assert (await Browser(inspected.client, f"{sessions.COOKIE}=planted").get("/agents/ada")).status == 303
    first = planted.cookie
    await planted.sign_in(inspected.host_secret)
    assert (await Browser(inspected.client, first).get("/agents/ada")).status == 303


async def test_session_ends_by_signing_out_by_time_and_with_its_key(database_url: str) -> None:
    clock = Clock()
    async with Memory(database_url, settings=Settings(llm="offline"), clock=clock) as memory:
        key = await memory.keys.create("chat", rights=["read"], agents=["ada"])
        async with lived(create_app(memory, mcp=False)) as client:
            browser = Browser(client)
            await browser.sign_in(key.secret)
            cookie = browser.cookie
            assert (await browser.get("/agents/ada")).status == 200
            await browser.post("/sign-out")
            assert (await Browser(client, cookie).get("/agents/ada")).status == 303
            await browser.sign_in(key.secret)
            clock.goes_on(hours=8)
            assert (await browser.get("/agents/ada")).status == 303
            await browser.sign_in(key.secret)
            await memory.keys.revoke(key.key_id)
            assert (await browser.get("/agents/ada")).status == 303


async def test_process_keeps_neither_cookies_nor_keys(inspected: Inspected) -> None:
    held = sessions.Sessions(lambda: inspected.memory.now())
    entry = sessions.Entry(hash_of(inspected.host_secret).hex())
    token = held.begin(entry)
    kept = repr([vars(held), *held._sessions.items()])
    assert token not in kept
    assert inspected.host_secret not in kept
    assert entry.secret_hash not in kept
    assert held.entry(token) == entry


async def test_code_opens_once_within_a_minute(database_url: str) -> None:
    clock = Clock()
    async with Memory(database_url, settings=Settings(llm="offline"), clock=clock) as memory:
        key = await memory.keys.create("chat", rights=["read"], agents=["ada"])
        async with lived(create_app(memory, mcp=False)) as client:
            code = await memory.keys.link(key.secret)
            browser = Browser(client)
            entered = await browser.get("/enter", {"code": code})
            assert (entered.status, entered.headers["location"]) == (303, "/")
            assert (await browser.get("/agents/ada")).status == 200
            assert (await Browser(client).get("/enter", {"code": code})).status == 401
            late = await memory.keys.link(key.secret)
            clock.goes_on(seconds=61)
            assert (await Browser(client).get("/enter", {"code": late})).status == 401
            assert (await Browser(client).get("/enter", {"code": "guess"})).status == 401


async def test_host_sends_a_person_to_their_page_by_a_link(inspected: Inspected) -> None:
    """The link opens what a key of that person would open, once, and never more than the host's key allows."""
    ids = await known(inspected.memory)
    host = inspected.client.with_key(inspected.host_secret)
    asked_for = {"agent_id": "ada", "user_id": "mia"}
    link = await host("POST", "/entrances", asked_for)
    assert (link.status, link.json["seconds"]) == (201, 60)
    assert inspected.host_secret not in link.text
    browser = Browser(inspected.client)
    path, _, code = link.json["path"].partition("?code=")
    assert (await browser.get(path, {"code": code})).status == 303
    assert (await browser.get("/")).headers["location"] == MIA
    assert "green tea" in words_of(await browser.get(MIA))
    for page in (JONAS, "/agents/ada", "/agents/ada/work", "/agents/bob/people/mia", "/keys"):
        assert (await browser.get(page)).status == 403, page
    assert (await browser.post(f"{MIA}/observations/{ids['rope']}/hide")).status == 404
    assert (await Browser(inspected.client).get(path, {"code": code})).status == 401
    hers = inspected.client.with_key(inspected.mia_secret)
    assert (await hers("POST", "/entrances", asked_for)).status == 201
    for client, body, status in (
        (hers, {**asked_for, "user_id": "jonas"}, 403),
        (host, {**asked_for, "agent_id": "eve"}, 403),
        (host, {"agent_id": "ada"}, 422),
        (host, {**asked_for, "user_id": 7}, 422),
        (host, [], 422),
        (inspected.client, asked_for, 401),
    ):
        assert (await client("POST", "/entrances", body)).status == status, body
    cookie = Browser(inspected.client, inspected.host.cookie)
    assert (await cookie.post("/entrances", asked_for)).status == 401


@pytest.mark.slow
async def test_link_works_once_in_whichever_process_it_arrives(inspected: Inspected) -> None:
    """Nothing is kept where it is made; where it is used, the database knows of it before anybody is let in."""
    host = inspected.client.with_key(inspected.host_secret)
    url = inspected.memory.database.url.render_as_string(hide_password=False)
    async with Memory(url, settings=Settings(llm="offline")) as other, lived(create_app(other, mcp=False)) as elsewhere:
        made = [(await host("POST", "/entrances", {"agent_id": "ada", "user_id": "mia"})).json for _ in range(4)]
        codes = [link["path"].partition("?code=")[2] for link in made]
        assert (await Browser(elsewhere).get("/enter", {"code": codes[0]})).status == 303
        assert (await Browser(inspected.client).get("/enter", {"code": codes[0]})).status == 401
        browsers = [Browser(client) for client in (elsewhere, inspected.client) * 4]
        at_once = await asyncio.gather(*(one.get("/enter", {"code": codes[1]}) for one in browsers))
        assert sorted(answer.status for answer in at_once) == [303, *[401] * 7]
        host_key = await inspected.memory.keys.find(inspected.host_secret)
        assert host_key
        await inspected.memory.keys.revoke(host_key.key_id)
        assert (await Browser(elsewhere).get("/enter", {"code": codes[2]})).status == 401


async def test_link_that_nobody_signed_or_that_says_too_much_opens_nothing(inspected: Inspected) -> None:
    """What is signed by anything but the key of the database opens nothing; nor what is, beyond the key behind it."""
    memory, now = inspected.memory, inspected.memory.now()
    host, mia = await key_id(memory, inspected.host_secret), await key_id(memory, inspected.mia_secret)

    async def signed(link: Link) -> str:
        ((signature,),) = await rows(memory, f"SELECT memory.keyed_hash('link 1', '\\x{told_of(link).hex()}')")
        return code_of(told_of(link), signature)

    def forged(link: Link, key: bytes) -> str:
        return code_of(told_of(link), hmac.digest(key, b"link 1\0" + told_of(link), "sha256"))

    hers, all_of_it = new_link(host, "ada", "mia", now), new_link(host, None, None, now)
    good = await signed(hers)
    told, _, signature = good.partition(".")
    wrong = [
        await signed(new_link(mia, "ada", "jonas", now)),  # her own key, for somebody else
        await signed(new_link(host, "eve", "mia", now)),  # an agent that the key isn't for
        await signed(new_link(host, "ada", None, now)),
        await signed(hers._replace(ends=hers.ends + 3600)),
        await signed(hers._replace(ends=hers.ends - 61)),
        await signed(hers._replace(key_id=9999)),
        forged(all_of_it, hash_of(inspected.host_secret)),  # by what readers of the table see
        forged(all_of_it, inspected.host_secret.encode()),
        forged(all_of_it, b""),
        code_of(told_of(all_of_it), b""),
        f"{told}.{signature[:-2]}AA",
        f"{told[:-4]}AAAA.{signature}",
        told, "", ".", "..", "a.b", "%00", "\u00e9.x", "W10.", "x" * 6000,
    ]  # fmt: skip
    for code in wrong:
        assert (await Browser(inspected.client).get("/enter", {"code": code})).status == 401, code
    same = good.replace(".", "=.")  # as base64 may be written
    assert parts_of(same) == parts_of(good)
    for code, status in ((good, 303), (same, 401)):
        assert (await Browser(inspected.client).get("/enter", {"code": code})).status == status


async def key_id(memory: Memory, secret: str) -> int:
    key = await memory.keys.find(secret)
    assert key
    return key.key_id


async def test_link_opens_once_by_clocks_that_differ(database_url: str) -> None:
    """A process that is ahead clears none away that one behind would still take."""
    early, late = Clock(), Clock()
    late.goes_on(seconds=45)
    offline = Settings(llm="offline")
    async with Memory(database_url, settings=offline, clock=early) as one, Memory(database_url, settings=offline, clock=late) as other:  # fmt: skip  # noqa: E501
        key = await one.keys.create("chat", rights=["read"], agents=["ada"])
        code = await one.keys.link(key.secret)
        assert await one.keys.redeem(code)
        late.goes_on(seconds=45)
        assert await other.keys.redeem(await other.keys.link(key.secret))
        assert await one.keys.redeem(code) is None


@pytest.mark.slow
async def test_person_s_own_page_alone_is_shown_in_a_frame_of_the_named_host(database_url: str) -> None:
    """Clickjacking: no other page is, for nobody else, and none where no host is named."""
    app_page = "https://app.example.com"
    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        host = await memory.keys.create("chat", rights=RIGHTS, agents=["ada"])
        await memory.observe("Mia likes tea.", **ADA, user_id="mia")
        app = create_app(memory, mcp=False, frame_origins=[app_page, "http://localhost:3000"])
        async with lived(app) as client:
            embedded, apart = Browser(client), Browser(client)
            framed = {"sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site"}
            for browser, headers in ((embedded, framed), (apart, {"sec-fetch-dest": "document"})):
                code = await memory.keys.link(host.secret, agent_id="ada", user_id="mia")
                answer = await client("GET", "/enter", query={"code": code}, headers=headers)
                browser.cookie = answer.headers["set-cookie"].partition(";")[0]
                set_cookie = set(answer.headers["set-cookie"].lower().split("; "))
                if browser is embedded:
                    assert {"samesite=none", "secure", "partitioned", "httponly"} <= set_cookie
                else:
                    assert "samesite=strict" in set_cookie
                    assert "partitioned" not in set_cookie
            allowed = POLICY.replace("'none'; base", f"{app_page} http://localhost:3000; base")
            for path, status in ((MIA, 200), (f"{MIA}/forget", 200), (JONAS, 403), (f"{MIA}/observations/o9-9", 404)):
                answer = await embedded.get(path)
                assert (answer.status, answer.headers["content-security-policy"]) == (status, allowed), path
                assert "x-frame-options" not in answer.headers
            operator = Browser(client)
            await operator.sign_in(host.secret)
            for browser, path in (
                (operator, MIA),
                (operator, "/agents/ada"),
                (Browser(client), "/"),
                (embedded, "/enter"),
            ):
                answer = await browser.get(path)
                assert answer.headers["content-security-policy"] == POLICY, path
                assert answer.headers["x-frame-options"] == "DENY"
            # A page of the host's own can't post in her name, though in a frame the cookie comes along.
            posted = await embedded.post(
                f"{MIA}/forget", {"name": "mia"}, {"sec-fetch-site": "cross-site", "origin": app_page}
            )
            assert posted.status == 403
            out = await embedded.post("/sign-out", {}, {"sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe"})
            assert "Partitioned" in out.headers["set-cookie"]
            assert (await embedded.get(MIA)).status == 303


@pytest.mark.parametrize(
    "origin",
    ["*", "https://*.example.com", "app.example.com", "http://app.example.com", "https://a.example/x", "'self'",
     "https://a.example; script-src *", "https://a.example b.example", "javascript:x", ""],
)  # fmt: skip
def test_what_isnt_an_origin_may_show_nothing_in_a_frame(origin: str) -> None:
    with pytest.raises(ConfigurationError):
        create_app(Memory("postgresql://nobody@127.0.0.1:9/nothing"), mcp=False, frame_origins=[origin])


async def test_nothing_is_shown_without_a_session(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    for path in pages_of(ids)[1:]:
        answer = await asked(Browser(inspected.client), path)
        assert (answer.status, answer.headers["location"], answer.body) == (303, "/", b""), path


async def test_no_page_of_the_server_runs_what_another_host_sends(inspected: Inspected) -> None:
    browser = Browser(inspected.client, inspected.host.cookie)
    for path in ("/docs", "/docs/oauth2-redirect", "/redoc"):
        assert (await browser.get(path)).status == 404, path
    assert (await browser.get("/openapi.json")).status == 200


# What a page of another site can't do


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost"},  # another port of this machine
        {"sec-fetch-site": "none"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "null"},
        {},
    ],
)
async def test_post_from_elsewhere_is_refused(inspected: Inspected, headers: dict[str, str]) -> None:
    ids = await known(inspected.memory)
    before = await state(inspected.memory)
    for path, form in posts(ids):
        answer = await inspected.host.post(path, form, headers)
        assert answer.status == 403, path
    assert await state(inspected.memory) == before


@pytest.mark.slow
async def test_post_without_a_session_or_with_a_made_up_one_is_refused(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    before = await state(inspected.memory)
    for cookie in (None, f"{sessions.COOKIE}=guess"):
        for path, form in posts(ids):
            assert (await Browser(inspected.client, cookie).post(path, form)).status == 403, path
    assert await state(inspected.memory) == before


@pytest.mark.slow
async def test_post_of_the_same_host_by_its_origin_is_taken(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    path = f"{MIA}/observations/{ids['boat']}/confirm"
    answer = await inspected.host.post(path, {}, {"origin": "http://localhost"})
    assert answer.status == 303
    found = await inspected.memory.observations.get(ids["boat"], **ADA, user_id="mia")
    assert found.verification == "confirmed"


def posts(ids: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    one = f"{MIA}/observations/{ids['boat']}"
    return [
        (f"{one}/correct", {"text": "Mia rows."}),
        (f"{one}/confirm", {}),
        (f"{one}/dispute", {}),
        (f"{one}/mark", {"private": "yes"}),
        (f"{one}/hide", {}),
        (f"{one}/forget", {"seen": ""}),
        (f"{MIA}/forget", {"name": "mia", "seen": ""}),
        (f"{MIA}/ask", {"message": "tea"}),
        ("/agents/ada/work/reviews/o1-1", {"decision": "accept"}),
        ("/agents/ada/work/runs/1/discard", {}),
        ("/keys", {"name": "x", "read": "yes"}),
    ]


async def state(memory: Memory) -> list[tuple[Any, ...]]:
    return await rows(memory, "SELECT o.content, s.* FROM memory.observations o JOIN memory.observation_states s USING (agent_key, scope_id, seq) ORDER BY 2, 3, 4")  # fmt: skip  # noqa: E501


@pytest.mark.slow
async def test_no_address_leads_elsewhere(inspected: Inspected) -> None:
    """Open redirects: every answer that sends on sends to a page of ours."""
    away = "//evil.example/"
    for answer in (
        await Browser(inspected.client).get("/", {"next": away, "to": away, "url": away}),
        await Browser(inspected.client).post("/sign-in", {"key": inspected.host_secret, "next": away, "to": away}),
        await Browser(inspected.client).get("/agents/ada", {"next": away}),
        await inspected.host.get("/agents", {"agent": "/evil.example"}),
        await inspected.host.get("/agents/ada/people", {"user": "/evil.example/"}),
        await inspected.host.get("/agents/ada/people", {"user": "\\evil.example"}),
    ):
        to = answer.headers.get("location", "/")
        assert to.startswith("/"), to
        assert not to.startswith(("//", "/\\")), to


@pytest.mark.slow
async def test_key_is_in_no_address_page_or_log(inspected: Inspected, caplog: pytest.LogCaptureFixture) -> None:
    ids = await known(inspected.memory)
    browser = Browser(inspected.client)
    with caplog.at_level(logging.DEBUG):
        answers = [await browser.sign_in(inspected.host_secret)]
        answers += [await asked(browser, path) for path in pages_of(ids)]
        answers += [await browser.sign_in(f"{inspected.host_secret}x")]
    token = str(browser.cookie).partition("=")[2]
    logged = caplog.text + repr([vars(record) for record in caplog.records])
    for secret in (inspected.host_secret, token):
        assert secret not in logged
    for answer in answers:
        assert inspected.host_secret not in answer.text + json.dumps(answer.headers)
    assert "mia" not in "".join(record.getMessage() for record in caplog.records if record.name == "memory_sql.server")


# What pages show


@pytest.mark.slow
async def test_every_page_is_whole_and_takes_few_statements(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    for path in pages_of(ids):
        with statements(inspected.memory) as sent:
            answer = await asked(inspected.host, path)
        assert answer.status == 200, (path, answer.text)
        checked(answer)
        assert len(sent) <= 12, (path, len(sent))


@pytest.mark.slow
async def test_pages_stay_small_however_much_is_known(inspected: Inspected) -> None:
    """Texts, sources and lists end somewhere, and say that there is more."""
    memory = inspected.memory
    kinds = [f"of the {n}th kind " * 40 for n in range(100)]
    said = [{"id": str(n), "role": "user", "content": f"I prefer drink {n}, {kind}."} for n, kind in enumerate(kinds)]
    await memory.add(said, **ADA, user_id="mia", conversation_id="long")
    formed = await memory.conversations.form(**ADA, conversation_id="long")
    own = formed.observations[0].scope.id
    assert len(await memory.observations.list(**ADA, user_id="mia", limit=1000)) >= 60
    assert "There is more" in words_of(await inspected.host.get(MIA))
    for version in range(2):
        for path in (MIA, f"{MIA}/observations", f"{MIA}/scopes/{own}", f"{MIA}/scopes/{own}?from=0"):
            with statements(memory) as sent:
                answer = await asked(inspected.host, path)
            assert answer.status == (404 if "from" in path and version == 0 else 200), path
            checked(answer)
            assert len(sent) <= 12, path
        await memory.scopes.consolidate(**ADA, scope_id=own)


@pytest.mark.slow
async def test_hostile_memory_is_inert_on_every_page(inspected: Inspected) -> None:
    memory = inspected.memory
    person = "</title><script>&\"'"
    home = "/agents/ada/people/%3C%2Ftitle%3E%3Cscript%3E&%22'"
    await memory.groups.create("harbour", **ADA, display_name="<script>g</script>")
    await memory.groups.add_member("harbour", person, **ADA)
    said = [{"id": "</a>", "role": "user", "name": "<b>Eve</b>", "content": HOSTILE}]
    await memory.add(said, **ADA, user_id=person, conversation_id="</pre><script>")
    spoken: dict[str, Any] = {
        "user_id": person,
        "conversation_id": "</pre><script>",
        "tags": ["<i>"],
        "category": "tea",
    }
    short = await memory.observe(f"I prefer tea. {MARKUP}", **ADA, **spoken)
    await memory.scopes.consolidate(**ADA, scope_id=short.scope.id)
    made = await memory.observe(HOSTILE, **ADA, **spoken, actor="<script>")
    await memory.holds.place(**ADA, user_id=person, reason="<script>r</script>")
    ids = {"scope": made.scope.id, "tea": made.id}
    for path in [*pages_of(ids, home), f"{home}/forget", f"{home}/observations/{made.id}/forget"]:
        answer = await asked(inspected.host, path)
        assert answer.status == 200, (path, answer.text)
        checked(answer)
        assert "<img" not in answer.text, path
        assert "{{7*7}}" in answer.text or "evil" not in answer.text, path
        assert "<b>Eve" not in answer.text
    wanted = await inspected.host.post(f"{home}/ask", {"message": HOSTILE})
    checked(wanted)
    assert "<img" not in wanted.text


@pytest.mark.slow
async def test_page_says_what_is_known_and_where_from(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    page = words_of(await inspected.host.get(MIA))
    assert "green tea" in page
    assert "red boat" in page
    assert "rope" in page
    text = await inspected.host.get(f"{MIA}/scopes/{ids['scope']}")
    assert "<details" in text.text
    assert ids["tea"] in text.text
    one = words_of(await inspected.host.get(f"{MIA}/observations/{ids['tea']}"))
    assert "I prefer green tea, and never before ten." in one
    assert "in the conversation monday" in one


@pytest.mark.slow
async def test_one_observation_is_corrected_marked_hidden_and_brought_back(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    one = f"{MIA}/observations/{ids['boat']}"
    corrected = await inspected.host.post(f"{one}/correct", {"text": "Mia sails a blue boat."})
    assert corrected.status == 303
    new = corrected.headers["location"].partition("?")[0]
    assert "blue boat" in words_of(await inspected.host.get(new))
    old = words_of(await inspected.host.get(one))
    assert "replaced by" in old
    assert (await inspected.host.post(f"{new}/mark", {"private": "yes"})).status == 303
    assert (await inspected.host.post(f"{new}/dispute", {})).status == 303
    assert "disputed" in words_of(await inspected.host.get(new))
    assert (await inspected.host.post(f"{new}/hide", {})).status == 303
    gone = await inspected.host.get(new)
    assert gone.status == 404
    checked(gone)
    assert "blue boat" not in words_of(await inspected.host.get(MIA))
    assert (await inspected.host.post(f"{new}/unhide", {})).status == 303
    assert "blue boat" in words_of(await inspected.host.get(MIA))


async def test_asking_shows_what_the_prompt_would_contain_and_why(inspected: Inspected) -> None:
    await known(inspected.memory)
    with statements(inspected.memory) as sent:
        answer = await inspected.host.post(f"{MIA}/ask", {"message": "Do you remember which tea I prefer?"})
    assert len(sent) <= 12
    checked(answer)
    page = words_of(answer)
    assert "<IndividualMemory" in page or "<UserMemory" in page or "MemoryContext" in page
    assert "green tea" in page
    assert "<svg" in answer.text or "<meter" in answer.text


# A person's own page


async def test_own_key_opens_ones_own_page_and_nothing_else(inspected: Inspected) -> None:
    ids = await plant(inspected.memory)
    home = await inspected.mia.get("/")
    assert (home.status, home.headers["location"]) == (303, MIA)
    page = await inspected.mia.get(MIA)
    assert page.status == 200
    assert "Mia likes rum." in words_of(page)
    assert JONAS not in page.text
    hers, his = (
        ("/forget", "/export", "/ask", "/observations", f"/observations/{ids['his']}", f"/scopes/{ids['scope']}"),
        (f"/observations/{ids['his']}", f"/observations/{ids['shared']}", f"/scopes/{ids['scope']}",
         f"/observations/{ids['his']}/forget", f"/observations?scope={ids['scope']}", f"/observations?query={CANARY}"),
    )  # fmt: skip
    refused = [
        "/agents/ada", "/agents/bob", "/agents/ada/work", "/agents/ada/groups", "/agents/ada/groups/theirs",
        "/agents/ada/holds", "/keys", "/imports", "/agents/bob/people/mia", JONAS,
        *(JONAS + page for page in hers), *(MIA + page for page in his),
    ]  # fmt: skip
    for path in refused:
        answer = await asked(inspected.mia, path)
        assert answer.status in (403, 404) or path.startswith(f"{MIA}/observations?"), (path, answer.status)
        assert CANARY not in answer.text.replace(f'value="{CANARY}"', "").replace(f"“<bdi>{CANARY}</bdi>”", ""), path
        checked(answer)
    before = await state(inspected.memory)
    for one in (
        f"{MIA}/observations/{ids['his']}",
        f"{MIA}/observations/{ids['shared']}",
        f"{JONAS}/observations/{ids['his']}",
    ):
        for act, form in (
            ("correct", {"text": "No."}), ("confirm", {}), ("dispute", {}), ("mark", {"private": "yes"}), ("hide", {}),
            ("unhide", {}), ("forget", {"seen": ""}),
        ):  # fmt: skip
            answer = await inspected.mia.post(f"{one}/{act}", form)
            assert answer.status in (403, 404), (one, act, answer.status)
            assert CANARY not in answer.text
    for path, form in (
        (f"{JONAS}/forget", {"name": "jonas", "seen": ""}),
        (f"{JONAS}/ask", {"message": CANARY}),
        ("/agents/ada/work/reviews/o1-1", {"decision": "accept"}),
        ("/agents/ada/holds/1/release", {}),
    ):
        assert (await inspected.mia.post(path, form)).status == 403
    wanted = await inspected.mia.post(f"{MIA}/ask", {"message": "Do you remember the tea, who sails, where they meet?"})
    assert CANARY not in wanted.text
    assert await state(inspected.memory) == before


async def test_what_isnt_there_and_what_isnt_hers_look_the_same(inspected: Inspected) -> None:
    ids = await plant(inspected.memory)
    for known_id, unknown in ((ids["his"], "o99-1"),):
        his = await inspected.mia.get(f"{MIA}/observations/{known_id}")
        none = await inspected.mia.get(f"{MIA}/observations/{unknown}")
        assert his.text.replace(known_id, "X") == none.text.replace(unknown, "X")


async def test_what_another_said_in_the_group_has_no_button_for_her_and_is_refused(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    one = f"{MIA}/observations/{ids['rope']}"
    page = (await inspected.mia.get(one)).text
    assert f"{one}/confirm" in page
    for act in ("correct", "mark", "hide"):
        assert f"{one}/{act}" not in page
        assert (await inspected.mia.post(f"{one}/{act}", {"text": "x", "private": "yes"})).status == 404


async def test_right_that_a_key_lacks_has_no_button_and_is_refused(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    reader = await inspected.memory.keys.create("reader", rights=["read"], agents=["ada"])
    browser = Browser(inspected.client)
    await browser.sign_in(reader.secret)
    page = (await browser.get(f"{MIA}/observations/{ids['boat']}")).text
    assert "<form" not in page.replace('action="/sign-out"', "").split("<main")[1]
    for path, form in posts(ids):
        if not path.endswith("/ask"):
            assert (await browser.post(path, form)).status == 403, path
    for path in (f"{MIA}/forget", "/agents/ada/work", "/agents/ada/holds", f"{MIA}/export", "/keys", "/imports"):
        assert (await browser.get(path)).status == 403, path


# Forgetting


@pytest.mark.slow
async def test_preview_is_the_receipt_and_the_canaries_are_gone(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    preview = await inspected.mia.get(f"{MIA}/forget")
    checked(preview)
    seen = value_of(preview, "seen")
    for wrong in ("", "Mia", "jonas", "mia "):
        refused = await inspected.mia.post(f"{MIA}/forget", {"name": wrong, "seen": seen})
        assert refused.status == 422, wrong
        checked(refused)
    assert "green tea" in words_of(await inspected.mia.get(MIA))
    receipt = await inspected.mia.post(f"{MIA}/forget", {"name": "mia", "seen": seen})
    assert receipt.status == 200
    checked(receipt)
    assert counted(receipt) == counted(preview)
    for path in (MIA, f"{MIA}/observations", f"{MIA}/forget"):
        page = words_of(await inspected.mia.get(path))
        assert "tea" not in page.replace("team", "")
        assert "boat" not in page
    assert (await inspected.mia.get(f"{MIA}/observations/{ids['boat']}")).status == 404
    export = await inspected.mia.get(f"{MIA}/export")
    assert "green tea" not in export.text
    assert "Jonas brings the rope." in words_of(await inspected.host.get(JONAS))


def counted(answer: Answer) -> list[str]:
    """What goes and what stays, as the page lists it."""
    found = re.search(r'<dl class="counts">(.*?)</dl>', answer.text, re.DOTALL)
    assert found, answer.text
    return re.sub(r"<[^>]*>", " ", found[1]).split()


@pytest.mark.slow
async def test_what_was_added_since_the_preview_is_shown_before_it_goes(inspected: Inspected) -> None:
    """Two browsers at once: one looks at the preview while the other adds to what would go, or has forgotten it."""
    await known(inspected.memory)
    seen = value_of(await inspected.mia.get(f"{MIA}/forget"), "seen")
    await inspected.memory.observe("Mia has a cat.", **ADA, user_id="mia")
    other = await inspected.host.post(f"{MIA}/forget", {"name": "mia", "seen": seen})
    assert other.status == 409
    assert "cat" in words_of(await inspected.mia.get(MIA))
    again = value_of(other, "seen")
    assert (await inspected.host.post(f"{MIA}/forget", {"name": "mia", "seen": again})).status == 200
    assert (await inspected.mia.post(f"{MIA}/forget", {"name": "mia", "seen": again})).status == 409


@pytest.mark.slow
async def test_two_who_forget_at_once_forget_once(inspected: Inspected) -> None:
    """Both have looked at the same preview. One gets the receipt; the other is told that nothing of it is left."""
    await known(inspected.memory)
    seen = value_of(await inspected.mia.get(f"{MIA}/forget"), "seen")
    form = {"name": "mia", "seen": seen}
    both = await asyncio.gather(*(one.post(f"{MIA}/forget", form) for one in (inspected.mia, inspected.host)))
    assert sorted(answer.status for answer in both) == [200, 409]
    forgotten = "SELECT count(*) FROM memory.events WHERE kind = 'forget'"
    assert await rows(inspected.memory, forgotten) == [(1,)]


@pytest.mark.slow
async def test_what_comes_between_the_look_and_the_forgetting_isnt_forgotten_unseen(inspected: Inspected) -> None:
    """The forgetting itself compares, under its locks: nothing can come between."""
    await known(inspected.memory)
    hers = Selection(user_id="mia")
    seen = await inspected.memory.forget(hers, **ADA, dry_run=True)
    before = await state(inspected.memory)
    await inspected.memory.observe("Mia has a cat.", **ADA, user_id="mia")
    with pytest.raises(StaleError):
        await inspected.memory.forget(hers, **ADA, if_fingerprint=seen.fingerprint, wait=False)
    assert len(await state(inspected.memory)) == len(before)
    again = await inspected.memory.forget(hers, **ADA, dry_run=True)
    done = await inspected.memory.forget(hers, **ADA, if_fingerprint=again.fingerprint, wait=False)
    assert done.fingerprint == again.fingerprint
    everything = Selection(everything=True)
    seen = await inspected.memory.forget(everything, **ADA, dry_run=True)
    with pytest.raises(StaleError):
        await inspected.memory.forget(everything, **ADA, if_fingerprint=again.fingerprint)
    done = await inspected.memory.forget(everything, **ADA, if_fingerprint=seen.fingerprint)
    assert done.fingerprint == seen.fingerprint


async def test_one_observation_is_forgotten_after_its_preview(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    one = f"{MIA}/observations/{ids['tea']}/forget"
    preview = await inspected.mia.get(one)
    receipt = await inspected.mia.post(one, {"seen": value_of(preview, "seen")})
    assert counted(receipt) == counted(preview)
    assert "green tea" not in words_of(await inspected.mia.get(MIA))
    assert "red boat" in words_of(await inspected.mia.get(MIA))


@pytest.mark.slow
async def test_her_receipt_doesnt_say_who_speaks_of_her(inspected: Inspected) -> None:
    made = await inspected.memory.observe("Jonas finds Mia slow.", **ADA, user_id="jonas")
    await inspected.memory.observe("Mia likes ale.", **ADA, user_id="mia")
    assert made.id in (await inspected.host.get(f"{MIA}/forget")).text
    assert made.id not in (await inspected.mia.get(f"{MIA}/forget")).text


@pytest.mark.slow
async def test_export_is_a_file_of_lines(inspected: Inspected) -> None:
    await known(inspected.memory)
    answer = await inspected.mia.get(f"{MIA}/export")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"] == POLICY
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert lines[0]["type"] == "header"
    assert any("green tea" in json.dumps(line) for line in lines)


# Operating


async def test_reviews_are_decided(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    hers = Selection(user_id="mia", observation_id=ids["boat"])
    await inspected.memory.observations.quarantine(hers, **ADA, request="Please forget my boat.")
    page = await inspected.host.get("/agents/ada/work")
    assert "Please forget my boat." in words_of(page)
    to = re.search(r'action="(/agents/ada/work/reviews/[^"]+)"', page.text)
    assert to
    assert (await inspected.host.post(to[1], {"decision": "maybe"})).status == 422
    assert (await inspected.host.post(to[1], {"decision": "accept"})).status == 303
    assert await inspected.memory.work.reviews(**ADA) == []


async def test_page_says_where_a_memory_spread_as_far_as_its_reader_sees(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    boat, rope = (parse_observation_id(ids[name]) for name in ("boat", "rope"))
    await rows(
        inspected.memory,
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT agent_key, :scope, :seq, :source_scope, :source_seq FROM memory.agents WHERE agent_id = 'ada'",
        **dict(zip(("scope", "seq", "source_scope", "source_seq"), (*rope, *boat), strict=True)),
    )
    one = f"{MIA}/observations/{ids['boat']}"
    for browser in (inspected.host, inspected.mia):
        with statements(inspected.memory) as sent:
            page = await browser.get(one)
        assert "Where it spread" in words_of(page)
        assert ids["rope"] in page.text
        assert len(sent) <= 12
    await inspected.memory.groups.remove_member("harbour", "mia", **ADA)
    for browser in (inspected.host, inspected.mia):
        assert ids["rope"] not in (await browser.get(one)).text
    await rows(inspected.memory, "DELETE FROM memory.lineage")


async def test_sensitivity_is_shown_and_changed_by_the_version_that_was_shown(inspected: Inspected) -> None:
    ids = await known(inspected.memory)
    one = f"{MIA}/observations/{ids['boat']}"
    page = await inspected.mia.get(one)
    assert '<option value="private" selected>' in page.text
    version = value_of(page, "version")
    assert (await inspected.mia.post(f"{one}/mark", {"sensitivity": "secret", "version": version})).status == 422
    assert (await inspected.mia.post(f"{one}/mark", {"sensitivity": "sensitive", "version": version})).status == 303
    assert "sensitive" in words_of(await inspected.mia.get(one))
    assert (await inspected.mia.post(f"{one}/mark", {"sensitivity": "public", "version": version})).status == 409


async def test_work_shows_what_a_day_cost_and_gives_up_what_was_given_up(inspected: Inspected) -> None:
    await known(inspected.memory)
    await inspected.memory.models.set_price(
        "small", currency="EUR", input_per_million=2, output_per_million=10, valid_from=date(2020, 1, 1)
    )
    await rows(
        inspected.memory,
        "UPDATE memory.runs SET model = 'small', input_tokens = 500000, output_tokens = 25000 WHERE kind = 'formation'",
    )
    page = await inspected.host.get("/agents/ada/work")
    told = words_of(page)
    assert "500,000" in told
    assert "1.25 EUR" in told
    assert 'width="152.4"' in page.text  # of 160, and the rest came back
    checked(page)
    assert (await inspected.host.post("/agents/ada/work/runs/999/discard")).status == 404


async def test_work_that_was_given_up_is_discarded_once(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", max_errors=1)) as memory:
        key = await memory.keys.create("chat", rights=RIGHTS)
        await memory.add([message(SIGNAL)], **ADA, user_id="mia", conversation_id="monday")
        llm.then(*HOPELESS)
        await memory.run_due()
        (dead,) = await memory.work.dead()
        async with lived(create_app(memory, mcp=False)) as client:
            browser = Browser(client)
            await browser.sign_in(key.secret)
            work = "/agents/ada/work"
            assert f"runs/{dead.run_id}/discard" in (await browser.get(work)).text
            done = await browser.post(f"{work}/runs/{dead.run_id}/discard")
            assert (done.status, done.headers["location"]) == (303, f"{work}?done=discarded")
            page = await browser.get(work, {"done": "discarded"})
            checked(page)
            assert "It won\u2019t be tried again." in words_of(page)
            assert f"runs/{dead.run_id}/discard" not in page.text
            assert (await browser.post(f"{work}/runs/{dead.run_id}/discard")).status == 404
        assert await memory.work.dead() == []
        assert await rows(memory, "SELECT content FROM memory.messages") == [(SIGNAL,)]  # nothing is deleted
        assert await memory.admin.verify() == []


async def test_key_is_made_on_the_page_and_shown_once(inspected: Inspected, caplog: pytest.LogCaptureFixture) -> None:
    operator = await inspected.memory.keys.create("operator", rights=["read", "admin"])
    browser = Browser(inspected.client)
    await browser.sign_in(operator.secret)
    form = {"name": "Mia\u2019s page", "read": "yes", "agents": "ada\nbob\n", "user": "mia", "days": "30"}
    with caplog.at_level(logging.DEBUG):
        made = await browser.post("/keys", form)
    assert made.status == 201
    checked(made)
    found = re.search(r"ms_[\w-]{43}", made.text)
    assert found
    key = await inspected.memory.keys.find(found[0])
    assert key
    assert (key.name, key.rights, key.agents, key.user_id) == (form["name"], ("read",), ("ada", "bob"), "mia")
    assert key.expires_at
    assert found[0] not in caplog.text + json.dumps(made.headers)
    assert found[0] not in (await browser.get("/keys")).text
    for wrong, status in (
        ({"name": "x", "read": "yes", "forget": "yes"}, 403),  # a right that the key at hand lacks
        ({"name": "x", "read": "yes", "admin": "yes", "user": "mia"}, 422),
        ({"name": "", "read": "yes"}, 422),
        ({"name": "x"}, 422),
        ({"name": "x", "read": "yes", "days": "0"}, 422),
        ({"name": "x", "read": "yes", "days": "-1"}, 422),
        ({"name": "x", "read": "yes", "days": "1" * 30}, 422),
        ({"name": "x", "read": "yes", "days": "3661"}, 422),
    ):
        assert (await browser.post("/keys", wrong)).status == status, wrong
    assert (await inspected.host.post("/keys", {"name": "x", "read": "yes"})).status == 403
    assert (await inspected.mia.post("/keys", {"name": "x", "read": "yes"})).status == 403


async def test_key_that_ends_makes_none_that_outlasts_it(inspected: Inspected) -> None:
    memory = inspected.memory
    for days, wanted, status in ((10, "", 422), (10, "11", 422), (10, "9", 201), (0.5, "1", 422)):
        ends = memory.now() + timedelta(days=days)
        operator = await memory.keys.create("operator", rights=["read", "admin"], expires_at=ends)
        browser = Browser(inspected.client)
        await browser.sign_in(operator.secret)
        made = await browser.post("/keys", {"name": "x", "read": "yes", "days": wanted})
        assert made.status == status, (days, wanted)
        page = await browser.get("/keys")
        checked(page)
        assert ("Make it" in page.text) is (days > 1)


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "x,=cmd|'/c calc'!A0,x", 'x\r\n=HYPERLINK("http://evil.example")')


async def test_formula_in_a_copy_is_text(inspected: Inspected) -> None:
    """Each line is one JSON object: also opened as a sheet, no cell begins with what a sheet would compute."""
    for text in FORMULAS:
        await inspected.memory.observe(f"{text} and tea", **ADA, user_id="mia", metadata={"said": text})
    answer = await inspected.mia.get(f"{MIA}/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["x-content-type-options"] == "nosniff"
    lines = answer.body.decode().splitlines()
    kept = [line for line in map(json.loads, lines) if line["type"] == "observation"]
    assert {line["metadata"]["said"] for line in kept} == set(FORMULAS)  # to the letter
    for line in lines:
        for cell in re.split(r"[,;|\t]", line):
            assert not re.match(r"\s*[\"']?\s*[=+@\t\r-]", cell), cell


async def test_operators_of_all_agents_see_keys_and_imports(inspected: Inspected) -> None:
    operator = await inspected.memory.keys.create("operator", rights=RIGHTS)
    browser = Browser(inspected.client)
    await browser.sign_in(operator.secret)
    page = await browser.get("/keys")
    checked(page)
    assert "hers" in words_of(page)
    checked(await browser.get("/imports"))
    hers = next(key for key in await inspected.memory.keys.list() if key.name == "hers")
    assert (await browser.post(f"/keys/{hers.key_id}/revoke")).status == 303
    assert (await inspected.mia.get(MIA)).status == 303
    assert (await inspected.host.get("/keys")).status == 403


def test_templates_trust_no_value() -> None:
    """Whatever is shown is escaped: no template says that a value is safe, nor does the code that fills them."""
    folder = sessions.__file__.rpartition("/")[0]
    from pathlib import Path  # noqa: PLC0415

    files = [*Path(folder).rglob("*.html"), *Path(folder).rglob("*.py")]
    assert len(files) > 10
    for file in files:
        assert not re.search(r"\|\s*safe|Markup|autoescape false|<script|\son\w+=", file.read_text()), file
