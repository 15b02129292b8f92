"""A request in the words of a server's dialect: the parameters of the client's call. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from memory_sql.llm import Request, answers
from memory_sql.llm.dialect import FORMAT, Api, Dialect

SCHEMA_FOLLOWS = "The answer is one JSON object of this JSON schema:"

NAMES: Mapping[Api, Mapping[str, str]] = {  # what each API calls the options that it has
    "responses": {
        FORMAT: "text",
        "store": "store",
        "temperature": "temperature",
        "reasoning_effort": "reasoning",
        "max_completion_tokens": "max_output_tokens",
    },
    "chat": {
        name: name
        for name in (FORMAT, "temperature", "seed", "reasoning_effort", "max_completion_tokens", "max_tokens")
    },
}


class Sent:
    """A request as it is sent: `parameters` for the client, and the names of what a server may refuse of it."""

    def __init__(self, request: Request[Any], dialect: Dialect, options: Mapping[str, Any]) -> None:
        self.model = request.model
        self.dialect = dialect
        self._is_responses = dialect.api == "responses"
        self._output = request.output if issubclass(request.output, BaseModel) else None
        self.parameters = {"model": request.model, **self._texts(request), **dict(self._given(options))}

    @property
    def options(self) -> Collection[str]:
        """Those of `dialect.Option` that are in it, and `FORMAT`."""
        sent = self.parameters.keys()
        options = {option for option, name in NAMES[self.dialect.api].items() if name in sent}
        return options if "system" in self.dialect.without else options | {"system"}

    def _texts(self, request: Request[Any]) -> dict[str, Any]:
        instructions, prompt = request.instructions, request.prompt
        if self._output is not None and self.dialect.output != "json_schema":
            schema = json.dumps(answers.strict_schema(self._output), ensure_ascii=False, separators=(",", ":"))
            instructions = f"{instructions}\n\n{SCHEMA_FOLLOWS}\n{schema}"
        if "system" in self.dialect.without:
            instructions, prompt = "", f"{instructions}\n\n{prompt}"
        if self._is_responses:
            return {"input": prompt} | ({"instructions": instructions} if instructions else {})
        messages = [{"role": "system", "content": instructions}] if instructions else []
        return {"messages": [*messages, {"role": "user", "content": prompt}]}

    def _given(self, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """What is set and not refused, by the names that the API has for it."""
        without = self.dialect.without
        if self._is_responses and "store" not in without:
            yield "store", False
        if self._output is not None and self.dialect.output != "text":
            yield self._format(self._output)
        for option, value in options.items():
            if option == "max_completion_tokens" and option in without:
                option = "max_tokens"  # its old name
            name = NAMES[self.dialect.api].get(option)
            if value is not None and name is not None and option not in without:
                yield name, {"effort": value} if name == "reasoning" else value

    def _format(self, output: type[BaseModel]) -> tuple[str, Any]:
        if self.dialect.output == "json_object":
            asked: dict[str, Any] = {"type": "json_object"}
            return ("text", {"format": asked}) if self._is_responses else (FORMAT, asked)
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", output.__name__)[:64]
        schema = {"name": name, "schema": answers.strict_schema(output), "strict": True}
        if self._is_responses:
            return "text", {"format": {"type": "json_schema", **schema}}
        return FORMAT, {"type": "json_schema", "json_schema": schema}
