"""A browser without a screen: it keeps the cookie, follows no redirect, and says where its posts come from."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode

from tests.asgi import Answer, Client

SAME = {"sec-fetch-site": "same-origin"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Browser:
    def __init__(self, client: Client, cookie: str | None = None) -> None:
        self._client, self.cookie = client, cookie

    async def get(self, path: str, query: dict[str, str] | None = None) -> Answer:
        return self._kept(await self._client("GET", path, query=query, headers=self._cookies))

    async def post(self, path: str, form: dict[str, str] | None = None, headers: dict[str, str] = SAME) -> Answer:
        sent = urlencode(form or {}).encode()
        return self._kept(await self._client("POST", path, sent, headers={**self._cookies, **FORM, **headers}))

    async def sign_in(self, secret: str) -> Answer:
        return await self.post("/sign-in", {"key": secret})

    @property
    def _cookies(self) -> dict[str, str]:
        return {"cookie": self.cookie} if self.cookie else {}

    def _kept(self, answer: Answer) -> Answer:
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


def words_of(answer: Answer) -> str:
    """What a reader sees, without tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def value_of(answer: Answer, name: str) -> str:
    """Of the field of that name."""
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.text)
    assert found, answer.text
    return html.unescape(found[1])
