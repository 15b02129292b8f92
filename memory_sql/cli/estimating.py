"""What conversations would cost, before any model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output
from memory_sql.cli.adding import FileUser
from memory_sql.cli.options import AsJson, Data, Url, resolve, run

if TYPE_CHECKING:
    from memory_sql.domain.messages import Message
    from memory_sql.domain.results import Estimate
    from memory_sql.memory import Memory


def estimate(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Conversation files, as for add; - reads stdin.")],
    user: FileUser = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says how many calls, tokens and money conversations would cost; stores nothing and asks no model.

    \b
    memory-sql estimate chats.jsonl --user mia

    The prompts are counted as they would be sent; how many observations are found is estimated. Money by the prices of
    model set-price. What is propagated isn't included.
    """
    from memory_sql.cli.files import Defaults, read_file

    defaults = Defaults(user, None, (), resolve(url, data).message_max_characters, None)
    talks = [talk.messages for name in files for talk in read_file(name, defaults).conversations]
    output.rows(run(url, data, lambda memory: _priced(memory, talks)), _line, as_json, "")


async def _priced(memory: Memory, talks: Sequence[Sequence[Message]]) -> list[Estimate]:
    from memory_sql.jobs.estimating import estimate as estimated

    prices = {price.model: price for price in reversed(await memory.models.prices())}  # the newest of each
    found: list[Estimate] = []
    for one in estimated(talks, memory.settings, memory.now()):
        price = prices.get(one.model)
        if price is not None:
            cost = one.input_tokens * price.input_per_million + one.output_tokens * price.output_per_million
            one = one.model_copy(update={"cost": cost / 1_000_000, "currency": price.currency})
        found.append(one)
    return found


def _line(one: Estimate) -> str:
    money = "no price" if one.cost is None else f"{one.cost:,.4f} {one.currency}"
    return output.plain(
        f"{one.step:<14}{one.model}  {output.many(one.calls, 'call')}, {one.input_tokens:,} + {one.output_tokens:,} tokens,"
        f" {money}; about {output.many(one.observations, 'observation')}"
    )
