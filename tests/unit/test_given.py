"""What `Memory(…)` is made with: what can't be used is refused there, and not by whoever needs it later."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import ConfigurationError, InputError
from memory_sql.memory import Memory
from tests.fakes import Parrot

URL = "postgresql://nobody@127.0.0.1:1/none"


class Encoder:
    dimensions = 4

    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0, 0.0] for _ in texts]


@pytest.mark.parametrize("made", [Memory, sync.Memory])
@pytest.mark.parametrize("where", [{"url": URL}, {"shards": {"a": URL, "b": URL}}])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"llm": "gpt-5"}, r"llm must be .*generate\(\) .*, not str; .*slow_model"),
        ({"llm": Parrot}, "not the class Parrot"),
        ({"llm": print}, "not builtin_function_or_method"),
        ({"embeddings": "text-embedding-3-small"}, r"with embed\(\) .*, not str; .*embedding_model"),
        ({"embeddings": lambda texts: texts}, "not function"),
        ({"embeddings": Encoder}, "not the class Encoder"),
        ({"embeddings": Encoder()}, "not Encoder"),  # which has no name
        ({"settings": {"pool_size": 3}}, r"settings must be Settings, not dict: write Settings\("),
        ({"settings": {}}, "not dict"),
        ({"settings": Settings}, "not "),
        ({"clock": datetime.now(UTC)}, "clock must be a function that returns the time, not datetime"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(
    made: Any, where: dict[str, Any], given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        made(**where, **given)


@pytest.mark.parametrize("url", [5, b"postgresql://x/y", Path("memory")])
async def test_a_url_that_is_no_text_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"URL must be text, not {type(url).__name__}"):
        await Memory(url).open()


@pytest.mark.parametrize("made", [Memory, sync.Memory])
@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_stays_in_its_process(made: Any, send: Any) -> None:
    memory = made(URL, settings=Settings(llm="offline"))
    for part in (memory, memory.observations) if made is sync.Memory else (memory,):
        with pytest.raises(InputError, match="open one there"):
            send(part)


async def test_an_empty_url_is_not_the_embedded_postgres() -> None:
    with pytest.raises(ConfigurationError, match="URL can't be read"):
        await Memory("").open()
