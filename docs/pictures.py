"""Takes the pictures of the inspector in `docs/`: `make pictures`.

The pages show `examples/team.jsonl`, told on the days that it names, with rules in place of a model: the same each time.
`pictures.json` has a digest of each page with its style. A picture is taken only if its digest has changed, so that another
version of the browser changes none. A test compares the digests with those of the pages as they are now.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from memory_sql import Memory, Settings
from memory_sql.domain.keys import RIGHTS
from memory_sql.server import create_app
from tests.asgi import lived
from tests.browsing import Browser

HERE = Path(__file__).parent
DIGESTS = HERE / "pictures.json"
CHROMIUM = "/usr/bin/chromium"
STYLE = '<link rel="stylesheet" href="/style.css">'
COLOURS = 64  # of a picture: enough for text with smooth edges
ADA: dict[str, Any] = {"agent_id": "ada"}
PERSON = "/agents/ada/people/mia"


class Shot(NamedTuple):
    """A page and how it is taken. `asked`: the message sent by its form. `opened`: with its first part that opens open."""

    path: str
    asked: str | None = None
    scheme: Literal["light", "dark"] = "light"
    opened: bool = False
    height: int = 800


SHOTS = {
    "inspector-person": Shot(PERSON, opened=True, height=680),
    "inspector-person-dark": Shot(PERSON, opened=True, scheme="dark", height=680),
    "inspector-scope": Shot(f"{PERSON}/scopes/{{scope}}?from=1&to=2", height=960),
    "inspector-memory": Shot(f"{PERSON}/observations/{{observation}}", height=720),
    "inspector-ask": Shot(f"{PERSON}/ask", asked="When do we ship?", height=960),
    "inspector-forget": Shot(f"{PERSON}/forget", height=840),
}


async def pages(url: str | None, **settings: Any) -> dict[str, str]:
    """The page of each picture by its name, with its style inside. The database is empty before; None: an embedded one."""
    clock = _Clock()
    async with Memory(url, settings=Settings(llm="offline", embedding="off", **settings), clock=clock) as memory:
        await _tell(memory, clock)
        key = await memory.keys.create("docs", rights=RIGHTS)
        async with lived(create_app(memory, mcp=False)) as client:
            browser = Browser(client)
            await browser.sign_in(key.secret)
            style = (await browser.get("/style.css")).text
            names = await _names(memory)
            return {name: _styled(await _shown(browser, shot, names), style) for name, shot in SHOTS.items()}


def digests(shown: Mapping[str, str]) -> dict[str, str]:
    """A digest of each page, and of how its picture is taken."""
    return {
        name: hashlib.sha256(f"{SHOTS[name]}\n{page}".encode()).hexdigest()[:16] for name, page in sorted(shown.items())
    }


class _Clock:
    now = datetime(2026, 3, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def _tell(memory: Memory, clock: _Clock) -> None:
    turns = map(json.loads, (HERE.parent / "examples" / "team.jsonl").read_text("utf-8").splitlines())
    for conversation, said in groupby(turns, lambda turn: turn["conversation"]):
        messages = list(said)
        first = messages[0]
        clock.now = datetime.fromisoformat(messages[-1]["created_at"]) + timedelta(minutes=10)
        await memory.add(messages, **ADA, user_id=first["user_id"], conversation_id=conversation,
                         group_ids=first.get("group_ids", ()))  # fmt: skip
        await memory.conversations.form(**ADA, conversation_id=conversation)
        for scope in await memory.scopes.list(**ADA, user_id=first["user_id"]):
            await memory.scopes.consolidate(**ADA, scope_id=scope.ref.id)


async def _names(memory: Memory) -> dict[str, str]:
    own = next(s.ref.id for s in await memory.scopes.list(**ADA, user_id="mia") if s.ref.kind == "individual")
    found = await memory.observations.list(**ADA, user_id="mia", scope_id=own)
    return {"scope": own, "observation": next(one.id for one in found if one.source.message_ids)}


async def _shown(browser: Browser, shot: Shot, names: Mapping[str, str]) -> str:
    path, _, query = shot.path.format(**names).partition("?")
    if shot.asked is not None:
        return (await browser.post(path, {"message": shot.asked})).text
    return (await browser.get(path, dict(part.split("=") for part in query.split("&") if part))).text


def _styled(page: str, style: str) -> str:
    assert STYLE in page, page[:300]
    return page.replace(STYLE, f"<style>{style}</style>")


async def take(shown: Mapping[str, str]) -> None:
    """Writes a picture of each page."""
    from playwright.async_api import async_playwright  # noqa: PLC0415 (the test of the digests needs no browser)

    async with async_playwright() as started:
        browser = await started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, page in shown.items():
            shot = SHOTS[name]
            window = await browser.new_page(viewport={"width": 960, "height": shot.height}, color_scheme=shot.scheme)
            await window.set_content(page)
            if shot.opened:
                await window.locator("main details").first.evaluate("one => one.open = true")
            _write(HERE / f"{name}.png", await window.screenshot())
        await browser.close()


def _write(path: Path, png: bytes) -> None:
    from PIL import Image  # noqa: PLC0415

    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = asyncio.run(pages(None, data_dir=Path(folder) / "data"))
    before = json.loads(DIGESTS.read_text("utf-8")) if DIGESTS.exists() else {}
    after = digests(shown)
    changed = [name for name in after if after[name] != before.get(name) or not (HERE / f"{name}.png").exists()]
    asyncio.run(take({name: shown[name] for name in changed}))
    DIGESTS.write_text(json.dumps(after, indent=2) + "\n", "utf-8")
    print("taken:", ", ".join(changed) or "none, as nothing has changed")  # noqa: T201


if __name__ == "__main__":
    main()
