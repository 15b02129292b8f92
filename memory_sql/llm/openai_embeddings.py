"""`EmbeddingModel` over the OpenAI protocol. Imported only when used."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from memory_sql.config import OPENAI_DIMENSIONS
from memory_sql.errors import UnavailableError
from memory_sql.llm.openai import OMITTED, answered, client_of
from memory_sql.llm.replies import parsed
from memory_sql.llm.retry import deadline_of

SHORTENED = "text-embedding-3"  # models whose vectors the server shortens on request; others refuse the parameter


class OpenAIEmbeddings:
    """Asks through the official client, as `llm.openai.OpenAI` does. The same applies to key, time limits and retries."""

    def __init__(
        self,
        name: str,
        dimensions: int = OPENAI_DIMENSIONS,
        *,
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self.name = name
        self.dimensions = dimensions
        self._deadline_seconds = deadline_of(timeout_seconds, max_retries)
        self._client = client_of(base_url, api_key).with_options(timeout=timeout_seconds, max_retries=max_retries)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Raises `UnavailableError`, also if the answer doesn't follow the protocol."""
        body = parsed(await answered(self._client, self._deadline_seconds, self._send(list(texts))), _Vectors)
        in_order = sorted(body.data, key=lambda item: item.index)
        if [item.index for item in in_order] != list(range(len(texts))):
            raise UnavailableError("bad_response", f"the server gave {len(in_order)} vectors for {len(texts)} texts")
        return [item.embedding for item in in_order]

    async def close(self) -> None:
        await self._client.close()

    async def _send(self, texts: list[str]) -> bytes:
        response = await self._client.embeddings.with_raw_response.create(
            model=self.name,
            input=texts,
            dimensions=self.dimensions if self.name.startswith(SHORTENED) else OMITTED,
            encoding_format="float",
        )
        return response.http_response.content


class _Vector(BaseModel):
    index: int
    embedding: list[float]


class _Vectors(BaseModel):
    data: list[_Vector]
