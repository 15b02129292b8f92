"""The language models: check, prices, set-price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import AsJson, Data, Url, day, run

if TYPE_CHECKING:
    from memory_sql.domain.prices import Price
    from memory_sql.domain.results import ModelCheck

app = tree.group("The language models: whether they work, and what they cost.")


@app.command()
def check(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Asks the configured model three tiny things: whether it answers, whether its answers pass, what that costs.

    \b
    memory-sql model check

    The exit code is 1 where one of them doesn't pass.
    """
    found = run(url, data, lambda memory: memory.models.check())
    output.rows(found, _check_line, as_json, "")
    if any(check.problem for check in found):
        raise typer.Exit(1)


def _check_line(check: ModelCheck) -> str:
    tokens = f"{check.input_tokens or 0:,} + {check.output_tokens or 0:,} tokens"
    by = f"  [{check.asked_by}]" if check.asked_by else ""
    result = f"fails: {check.problem}" if check.problem else "passes"
    return output.plain(f"{check.step:<14}{check.model}  {result}  {check.seconds:.1f} s, {tokens}{by}")


@app.command()
def prices(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists the prices of models that were set.

    \b
    memory-sql model prices
    """
    output.rows(run(url, data, lambda memory: memory.models.prices()), _price_line, as_json, "no prices yet")


@app.command("set-price")
def set_price(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model, by the name that v_model_cost shows.")],
    sent: Annotated[str, typer.Option("--input", metavar="PRICE", help="Of a million input tokens.")],
    back: Annotated[str, typer.Option("--output", metavar="PRICE", help="Of a million output tokens.")],
    currency: Annotated[str, typer.Option("--currency", metavar="CODE", help="Three letters: EUR.")],
    since: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="From this day (UTC) on, 2026-03-01; default: today.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sets the price of a model, which the view v_model_cost uses.

    \b
    memory-sql model set-price gpt-5-mini --input 0.25 --output 2 --currency USD --from 2026-01-01

    A price applies until the model's next one; one of the same day is replaced. Tokens before the first price have no cost.
    """
    from memory_sql.domain.prices import amount_of

    prices = {"input_per_million": amount_of("--input", sent), "output_per_million": amount_of("--output", back)}
    valid_from = day("--from", since)
    told = run(
        url,
        data,
        lambda memory: memory.models.set_price(model, currency=currency, valid_from=valid_from, **prices),
    )
    output.one(told, _price_line, as_json)


def _price_line(price: Price) -> str:
    p = price
    costs = f"{p.input_per_million:,f} in, {p.output_per_million:,f} out, {p.currency} for a million tokens"
    return output.plain(f"{p.model}  from {p.valid_from}: {costs}")
