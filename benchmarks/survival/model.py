"""A server that speaks OpenAI's protocol, says what a conversation told, and fails when it is asked to.

It runs in a thread of its own, so that libraries that block don't stop it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

NAME, EMBEDDER, DIMENSIONS = "gpt-4.1-mini", "text-embedding-3-small", 256
KEY = "not-needed"
_TOLD = re.compile(r"my (\w+) is called (\w+)", re.IGNORECASE)


class Fact(NamedTuple):
    """Something that a person has told, in words that `told` doesn't find again."""

    thing: str
    name: str

    @property
    def text(self) -> str:
        return f"The user's {self.thing} has the name {self.name}."


def told(text: str) -> list[Fact]:
    """What persons tell in a text, each once."""
    return list(dict.fromkeys(Fact(thing.lower(), name) for thing, name in _TOLD.findall(text)))


@dataclass(frozen=True)
class Asked:
    """A request for an answer."""

    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return "\n".join(_text_of(message.get("content")) for message in self.body["messages"])

    @property
    def last(self) -> str:
        return _text_of(self.body["messages"][-1].get("content"))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that it names, else none."""
        asked = self.body.get("response_format") or {}
        return dict(asked.get("json_schema", {}).get("schema", {}))

    def news(self, text: str) -> list[Fact]:
        """What is told in a part of it and what it doesn't show as known already."""
        return [fact for fact in told(text) if fact.text not in self.prompt]

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools") or []]


class Call(NamedTuple):
    """A tool that the model calls."""

    name: str
    arguments: dict[str, Any]


Answers = Callable[[Asked], str | Sequence[Call]]


@dataclass
class Model:
    """`base_url` leads to it. The counts are those of all requests, of refused ones as well."""

    answers: Answers
    base_url: str = ""
    is_down: bool = False
    cut: int = 0  # so many answers more are cut in the middle
    delay_seconds: float = 0
    calls: Counter[str] = field(default_factory=Counter)
    bytes_sent: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, path: str, raw: bytes) -> tuple[int, bytes]:
        kind = "embeddings" if path.endswith("/embeddings") else "chat"
        with self._lock:
            self.calls[kind] += 1
            self.bytes_sent += len(raw)
            is_cut = kind == "chat" and self.cut > 0 and not self.is_down
            self.cut -= is_cut
        time.sleep(self.delay_seconds)
        if self.is_down:
            return 503, json.dumps({"error": {"message": "the model is down", "type": "server_error"}}).encode()
        body = json.loads(raw)
        answer = _embedded(body) if kind == "embeddings" else _completion(body, self.answers(Asked(body)), cut=is_cut)
        return 200, json.dumps(answer).encode()


@contextmanager
def serving(answers: Answers) -> Iterator[Model]:
    model = Model(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            status, body = model.respond(self.path, raw)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that went away; its own error says more."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model.base_url = f"http://127.0.0.1:{server.server_port}/v1"
        yield model
        server.shutdown()


def vector_of(text: str, dimensions: int) -> list[float]:
    """Of length 1; texts that share words are near one another."""
    vector = [0.001] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        vector[int.from_bytes(hashlib.md5(word.encode(), usedforsecurity=False).digest()[:4]) % dimensions] += 1
    length = math.hypot(*vector)
    return [one / length for one in vector]


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _embedded(body: dict[str, Any]) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [vector_of(str(text), body.get("dimensions") or DIMENSIONS) for text in texts]
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _completion(body: dict[str, Any], answer: str | Sequence[Call], *, cut: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(answer, str):
        message["content"] = _half(answer) if cut else answer
    else:
        calls = [(call.name, json.dumps(call.arguments)) for call in answer]
        message["tool_calls"] = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": _half(arguments) if cut else arguments},
            }
            for n, (name, arguments) in enumerate(calls)
        ]
    reason = "length" if cut else "stop" if isinstance(answer, str) else "tool_calls"
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 1772000000,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": reason, "message": message, "logprobs": None}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def _half(text: str) -> str:
    return text[: len(text) // 2]
