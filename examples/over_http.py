"""A chat that remembers over HTTP, by the standard library alone: `python examples/over_http.py`, a line for each turn.

First: memory-sql serve, which prints a key; then MEMORY_SQL_KEY=ms_… and perhaps MEMORY_SQL_SERVER=http://127.0.0.1:8765.
"""

import json
import os
import sys
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import uuid4

SERVER = os.environ.get("MEMORY_SQL_SERVER", "http://127.0.0.1:8765")
HEADERS = {"Authorization": f"Bearer {os.environ.get('MEMORY_SQL_KEY', '')}", "Content-Type": "application/json"}


def ask(path: str, body: dict, **headers: str) -> bytes:
    """What the server answers; empty if it doesn't: a turn goes on without memory."""
    request = Request(f"{SERVER}/v1/agents/ada/{path}", json.dumps(body).encode(), {**HEADERS, **headers})
    try:
        with urlopen(request, timeout=10) as answer:
            return answer.read()
    except URLError as error:  # also of a status from 400 on
        print(f"memory: {error}", file=sys.stderr)
        return b""


def turn(conversation: str, user: str, said: str) -> str:
    """The text for the prompt; the message is stored, once however often it is sent."""
    context = ask("context", {"user_id": user, "message": said}, Accept="text/plain").decode()
    message = {"id": str(uuid4()), "role": "user", "content": said}
    ask(f"conversations/{quote(conversation, safe='')}/messages", {"user_id": user, "messages": [message]})
    return context


if __name__ == "__main__":
    talk = str(uuid4())
    for line in sys.stdin:
        print(turn(talk, "mia", line.strip()))
