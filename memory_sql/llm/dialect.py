"""How a server takes the requests for a model: which API and form of answer, and without which options. Pure.

Servers that speak the OpenAI protocol know different parts of it. What one refuses is found out by its refusals, once for
each server and model, and noted. A refusal is read for the name of an option only; its text may echo the prompt.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol, get_args

Api = Literal["responses", "chat"]
Output = Literal["json_schema", "json_object", "text"]
Option = Literal["store", "temperature", "seed", "reasoning_effort", "max_completion_tokens", "max_tokens", "system"]
OUTPUTS: tuple[Output, ...] = get_args(Output)

FORMAT = "response_format"
MISSING = frozenset({404, 405, 501})  # statuses of an API that isn't there
REFUSED = MISSING | {400, 415, 422}
_NAMES: dict[str, tuple[str, ...]] = {  # in what a server says
    FORMAT: (
        FORMAT,
        "text.format",
        "json_schema",
        "json_object",
        "structured output",
        "schema",
        "guided",
        "grammar",
        "text",
    ),
    "store": ("store",),
    "temperature": ("temperature",),
    "seed": ("seed",),
    "reasoning_effort": ("reasoning_effort", "reasoning.effort", "reasoning"),
    "max_completion_tokens": ("max_completion_tokens", "max_output_tokens"),
    "max_tokens": ("max_tokens",),
    "system": ("system role", "system message", "role 'system'", "instructions"),
}
_NO_SUCH_FIELD = ("unknown", "unrecognized", "unrecognised", "extra", "unexpected", "not permitted", "no such")


class Refusal(NamedTuple):
    """`named`: what is refused of what was sent, an option or `FORMAT`. `is_unknown`: the server doesn't know the name."""

    status: int
    named: str | None = None
    is_unknown: bool = False


class Dialect(NamedTuple):
    api: Api = "responses"
    output: Output = "json_schema"
    without: frozenset[str] = frozenset()

    def after(self, refusal: Refusal, *, has_worked: bool, any_api: bool, any_output: bool) -> Dialect | None:
        """What to try next; None: nothing. What has worked is given up only for a refusal that names what it is about."""
        if refusal.status in MISSING:
            return self._replace(api="chat") if any_api and self.api == "responses" and not has_worked else None
        if refusal.named in get_args(Option):
            return self._replace(without=self.without | {str(refusal.named)})
        if self.output == "text" or not any_output or (has_worked and refusal.named is None):
            return None
        return self._replace(output="text" if refusal.is_unknown else OUTPUTS[OUTPUTS.index(self.output) + 1])


class Notes(Protocol):
    """Where it is kept what was found out, for other processes. `server`: its base URL."""

    async def find(self, server: str, model: str) -> Dialect | None: ...

    async def keep(self, server: str, model: str, dialect: Dialect) -> None: ...


def refusal_of(status: int, param: str | None, said: str, sent: Collection[str]) -> Refusal:
    """`param`: what the server says it is about; `said`: the rest of what it says; `sent`: the options of the request."""
    text = said.lower()
    is_unknown = any(word in text for word in _NO_SUCH_FIELD)
    names = {name: option for option in sent for name in _NAMES[option]}
    if param:
        for name, option in names.items():
            if param == name or param.startswith((f"{name}.", f"{name}[")):
                return Refusal(status, option, is_unknown)
    found = [(text.find(name), -len(name), option) for name, option in names.items() if name != "text" and name in text]
    return Refusal(status, min(found)[2] if found else None, is_unknown)
