"""The inspector in Chromium: every page, light, dark, 360 px wide, by keyboard.

MEMORY_SQL_CHROMIUM names the browser; MEMORY_SQL_AXE axe.min.js (`make axe`, as `.ci/run` does), without which accessibility
isn't checked, and a test is skipped that says so; MEMORY_SQL_SHOTS a folder for pictures.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from memory_sql.config import Settings
from memory_sql.domain.keys import RIGHTS
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from memory_sql.server import create_app
from memory_sql.server.serving import Server
from tests.database import rows
from tests.server.conftest import ADA
from tests.sizes import few_in_ci

playwright = pytest.importorskip("playwright.async_api")
CHROMIUM = Path(os.environ.get("MEMORY_SQL_CHROMIUM", "/usr/bin/chromium"))
AXE_FILE = Path(os.environ.get("MEMORY_SQL_AXE", "node_modules/axe-core/axe.min.js"))
AXE = AXE_FILE.read_text() if AXE_FILE.exists() else ""
SHOTS = os.environ.get("MEMORY_SQL_SHOTS")
WIDTHS = {"wide": 1200, "narrow": 360}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.direct,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs Chromium at {CHROMIUM}, or MEMORY_SQL_CHROMIUM"),
]

TALK = [
    ("mia", "I prefer green tea, and never before ten."),
    ("mia", "Remember that I live in Lisbon, near the harbour."),
    ("mia", "I am allergic to peanuts, please remember that."),
    ("jonas", "From now on every bug goes into the tracker, with the steps that repeat it."),
    ("mia", "We decided to ship the booking page on 24 April."),
]


class Shown(NamedTuple):
    memory: Memory
    url: str
    operator: str
    mia: str
    pages: dict[str, str]


@pytest.fixture
async def shown(database_url: str) -> AsyncIterator[Shown]:
    async with Memory(database_url, settings=Settings(llm="offline")) as memory, _served(memory) as url:
        operator = (await memory.keys.create("operator", rights=RIGHTS)).secret
        mia = (
            await memory.keys.create("hers", rights=["read", "write", "forget"], agents=["ada"], user_id="mia")
        ).secret
        yield Shown(memory, url, operator, mia, await _remembered(memory))
        assert await memory.admin.verify() == []


async def _remembered(memory: Memory) -> dict[str, str]:
    """Two people who share a group; the pages to visit, by name."""
    await memory.groups.create("harbour", **ADA, display_name="The harbour")
    for user in ("mia", "jonas"):
        await memory.groups.add_member("harbour", user, **ADA)
    for n, (user, text) in enumerate(TALK):
        talk: dict[str, Any] = {"conversation_id": "kitchen" if n < 3 else "monday"}
        groups = ["harbour"] if n >= 3 else []
        await memory.add({"id": f"m{n}", "role": "user", "name": user.title(), "content": text}, **ADA, user_id=user,
                         group_ids=groups, **talk)  # fmt: skip
    for conversation in ("kitchen", "monday"):
        await memory.conversations.form(**ADA, conversation_id=conversation)
    scopes = await memory.scopes.list(**ADA, user_id="mia")
    for scope in scopes:
        await memory.scopes.consolidate(**ADA, scope_id=scope.ref.id)
    own = next(scope.ref.id for scope in scopes if scope.ref.kind == "individual")
    boat = await memory.observe("Mia sails a red boat called Elin.", **ADA, user_id="mia", tags=["boat"])
    await memory.observations.confirm(boat.id, **ADA, user_id="mia")
    await memory.observations.mark(boat.id, **ADA, user_id="mia", private=True)
    old = await memory.observe("Mia drinks coffee.", **ADA, user_id="mia", conversation_id="kitchen", speaker="Mia")
    await memory.observations.update(old.id, **ADA, user_id="mia", text="Mia drinks tea, no coffee.")
    await memory.scopes.consolidate(**ADA, scope_id=own)
    cat = await memory.observe("Mia has a cat.", **ADA, user_id="mia")
    await memory.observations.quarantine(
        Selection(user_id="mia", observation_id=cat.id), **ADA, request="Forget my cat."
    )
    await memory.observe("Mia is learning the cello.", **ADA, user_id="mia")
    await memory.holds.place(**ADA, conversation_id="monday", reason="Case 7", actor="legal")
    await rows(
        memory,
        "UPDATE memory.runs SET model = 'small', input_tokens = 700 * run_id, output_tokens = 90 * run_id,"
        " started_at = started_at - run_id % 4 * interval '1 day' WHERE finished_at IS NOT NULL",
    )
    await memory.models.set_price(
        "small", currency="EUR", input_per_million=20, output_per_million=80, valid_from=date(2020, 1, 1)
    )
    found = await memory.observations.list(**ADA, user_id="mia", scope_id=own)
    said = next(one for one in found if one.source.message_ids)
    person = "/agents/ada/people/mia"
    return {
        "agents": "/",
        "agent": "/agents/ada",
        "person": person,
        "scope": f"{person}/scopes/{own}",
        "diff": f"{person}/scopes/{own}?from=1&to=2",
        "memories": f"{person}/observations",
        "searched": f"{person}/observations?query=tea",
        "memory": f"{person}/observations/{said.id}",
        "replaced": f"{person}/observations/{old.id}",
        "hidden": f"{person}/observations/{cat.id}",
        "forget": f"{person}/forget",
        "forget-one": f"{person}/observations/{said.id}/forget",
        "ask": f"{person}/ask",
        "work": "/agents/ada/work",
        "groups": "/agents/ada/groups",
        "group": "/agents/ada/groups/harbour",
        "holds": "/agents/ada/holds",
        "keys": "/keys",
        "imports": "/imports",
    }


def _served(memory: Memory) -> AbstractAsyncContextManager[str]:
    return _running(create_app(memory, mcp=False))


@asynccontextmanager
async def _running(app: FastAPI) -> AsyncIterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.setblocking(False)
        started = asyncio.Event()
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        server = Server(config, started.set)
        task = asyncio.create_task(server.serve([listening]))
        await asyncio.wait([task, asyncio.create_task(started.wait())], return_when=asyncio.FIRST_COMPLETED)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class Watched:
    """A page of the browser, with all that went wrong in it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.wrong: list[str] = []
        page.on("console", lambda message: self.wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(self.url):
            self.wrong.append(f"request: {url}")

    async def visit(self, path: str) -> None:
        await self.page.goto(self.url + path)

    async def sign_in(self, key: str) -> None:
        await self.visit("/")
        await self.page.get_by_label("Your key").fill(key)
        await self.page.keyboard.press("Enter")
        await self.page.get_by_role("button", name="Sign out").wait_for()

    async def check(self, name: str) -> None:
        page = self.page
        await page.wait_for_load_state("load")  # with its style
        fits = await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        if not fits:
            self.wrong.append(f"{name}: wider than the window")
        if AXE:
            await page.evaluate(AXE)
            found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            for one in found["violations"]:
                if one["impact"] in ("serious", "critical"):
                    where = "; ".join(str(node["target"]) for node in one["nodes"][:3])
                    self.wrong.append(f"{name}: {one['id']} ({one['impact']}) {where}")
        if SHOTS:
            await page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


@asynccontextmanager
async def _browser() -> AsyncIterator[Any]:
    async with playwright.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@pytest.mark.parametrize(
    ("scheme", "width"),
    few_in_ci(
        [("light", "wide"), ("dark", "wide"), ("light", "narrow"), ("dark", "narrow")],
        [("light", "wide"), ("dark", "narrow")],
    ),
)
async def test_every_page_is_well_light_dark_and_narrow(shown: Shown, scheme: str, width: str) -> None:
    async with _browser() as browser:
        context = await browser.new_context(
            color_scheme=scheme, viewport={"width": WIDTHS[width], "height": 900}, bypass_csp=False
        )
        watched = Watched(await context.new_page(), shown.url)
        await watched.visit("/")
        await watched.check(f"sign-in-{scheme}-{width}")
        await watched.sign_in(shown.operator)
        for name, path in shown.pages.items():
            await watched.visit(path)
            await watched.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            await watched.check(f"{name}-{scheme}-{width}")
        await watched.visit(shown.pages["ask"])
        await watched.page.get_by_label("A message").fill("Do you remember which tea I prefer?")
        await watched.page.get_by_role("button", name="Show").click()
        await watched.page.get_by_text("What the prompt would contain").wait_for()
        await watched.check(f"asked-{scheme}-{width}")
        await watched.visit("/keys")
        await watched.page.get_by_label("Name").fill("chat service")
        await watched.page.get_by_role("button", name="Make it").click()
        await watched.page.get_by_text("shown only this once").wait_for()
        await watched.check(f"key-made-{scheme}-{width}")
        await context.close()
    wrong = [one for one in watched.wrong if "404" not in one]  # the hidden one's page is meant to be
    assert wrong == []


def test_accessibility_is_checked() -> None:
    if not AXE:
        pytest.skip(f"{AXE_FILE} isn't there (make axe): accessibility wasn't checked")


async def test_a_person_s_page_works_in_a_frame_of_the_named_host_alone(database_url: str) -> None:
    """Another site's page: by the link the frame signs in, with a cookie of its own, and its forms work."""
    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        host = await memory.keys.create("chat", rights=RIGHTS, agents=["ada"])
        await memory.observe("Mia likes tea.", **ADA, user_id="mia")
        page_of_host = FastAPI()

        @page_of_host.get("/", response_class=HTMLResponse)
        async def embedding(src: str) -> str:
            return (
                f'<!doctype html><title>Host</title><h1>Host</h1><iframe src="{src}" width="700" height="600"></iframe>'
            )

        async with _running(page_of_host) as named, _running(page_of_host) as other:
            named, other = (url.replace("127.0.0.1", "localhost") for url in (named, other))
            async with _running(create_app(memory, mcp=False, frame_origins=[named])) as url, _browser() as browser:
                for origin, is_shown in ((named, True), (other, False)):
                    code = await memory.keys.link(host.secret, agent_id="ada", user_id="mia")
                    page = await (await browser.new_context()).new_page()
                    await page.goto(f"{origin}/?src={url}/enter%3Fcode={code}")
                    frame = page.frame_locator("iframe")
                    if not is_shown:
                        await page.wait_for_timeout(1500)
                        assert not await frame.get_by_text("Mia likes tea.").count()
                        continue
                    await frame.get_by_text("Mia likes tea.").click()
                    await frame.get_by_role("button", name="Yes, it is right").click()
                    await frame.get_by_text("Confirmed.").wait_for()
        (one,) = await memory.observations.list(**ADA, user_id="mia")
        assert one.verification == "confirmed"


async def test_a_person_goes_all_the_way_by_keyboard(shown: Shown) -> None:
    """Signs in, opens a sentence, follows it to a memory, corrects it, and forgets everything: no mouse."""
    async with _browser() as browser:
        page = await (await browser.new_context(viewport={"width": 800, "height": 900})).new_page()
        watched = Watched(page, shown.url)
        await watched.visit("/")
        await page.locator("#key:focus").wait_for()
        await page.keyboard.type(shown.mia)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/people/mia")
        await _tab_to(page, "summary")
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.parentElement.open")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/observations/o*")
        await _tab_to(page, "textarea")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Mia prefers black tea.")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_text("Corrected.").wait_for()
        assert await page.get_by_text("Mia prefers black tea.").count()
        await _tab_to(page, "a[href$='/mia/forget']")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/mia/forget")
        await _tab_to(page, "#name")
        await page.keyboard.type("mia")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Forgotten").wait_for()
        await watched.check("receipt")
        await watched.visit("/")
        await page.get_by_role("heading", name="knows about you").wait_for()
        await watched.check("own")
        assert not await page.get_by_text("tea").count()
    assert watched.wrong == []


async def _tab_to(page: Any, selector: str) -> None:
    """By as many tabs as it takes; all that is passed on the way can be seen to have the focus."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"no tab reaches {selector}")
