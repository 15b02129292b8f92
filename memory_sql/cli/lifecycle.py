"""How many of an agent's observations would be in each stage, week by week: a table, a chart, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, Data, Url, run
from memory_sql.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memory_sql.config import Settings
    from memory_sql.domain.observations import Stage
    from memory_sql.domain.results import LifecycleWeek
    from memory_sql.memory import Memory

CELLS: Mapping[Stage, str] = {"active": "█", "validated": "▓", "candidate": "▒", "stale": "░", "archived": "·"}
COLOURS: Mapping[Stage, str] = {
    "active": "#2f5d8a",
    "validated": "#6f9bc8",
    "candidate": "#c3d5e8",
    "stale": "#e6cfa8",
    "archived": "#d9d9d9",
}
NOTES = {
    "lifecycle": "lifecycle is off: these stages are what it would store",
    "archival": "archival is off: what is aged keeps its stage",
}
WIDTH = 30  # cells of the longest bar
TITLES = ("candidate", "validated", "active", "stale", "archived", "protected", "aged", "resolved", "evicted")


def lifecycle(
    agent: Agent,
    days: Annotated[int, typer.Option("--days", metavar="N", help="How far to look ahead, 0 to 3660.")] = 365,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also draw it into this file.")] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows how many observations would be in each stage, week by week, if nothing were said or used from now on.

    \b
    memory-sql lifecycle --agent ada
    memory-sql lifecycle --agent ada --days 730 --png stages.png

    By today's settings; nothing is changed. Protected: what of all of these no rule archives. Aged: what archival would have
    taken by then, whether or not it is on. Resolved: plans whose day has passed. Evicted: guesses that nobody confirmed, and
    what was resolved long ago, if `commitment_days` is set. A picture needs matplotlib: pip install "memory-sql[plots]".
    """
    if png is not None:
        _can_draw()

    async def look(memory: Memory) -> tuple[Sequence[LifecycleWeek], Settings]:
        return await memory.work.lifecycle(agent_id=agent, days=days), memory.settings

    weeks, settings = run(url, data, look)
    if png is not None:
        drawn(weeks).savefig(png, format="png", dpi=150)
    if as_json:
        output.rows(weeks, str, as_json, "")
    else:
        print("\n".join(_table(weeks, settings)))


def _table(weeks: Sequence[LifecycleWeek], settings: Settings) -> list[str]:
    most = max(sum(week.stages.values()) for week in weeks)
    rows = [_line(week, most) for week in weeks]
    legend = "  ".join(f"{cell} {stage}" for stage, cell in CELLS.items())
    told = "; ".join(note for name, note in NOTES.items() if not getattr(settings, name))
    return [f"{'day':<10}" + "".join(title.rjust(11) for title in TITLES), *rows, legend, *filter(None, [told])]


def _line(week: LifecycleWeek, most: int) -> str:
    beside = (week.protected, week.aged, week.resolved, week.evicted)
    counts = "".join(f"{count:>11,}" for count in (*week.stages.values(), *beside))
    return f"{output.day(week.at)}{counts}  {_bar(week.stages, most)}".rstrip()


def _bar(stages: Mapping[Stage, int], most: int) -> str:
    """Each stage begins where the one before ends, so that rounding never adds up."""
    bar, before = "", 0
    for stage, cell in CELLS.items():
        before += stages[stage]
        bar += cell * (round(WIDTH * before / max(most, 1)) - len(bar))
    return bar


def _can_draw() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError('a picture needs matplotlib: pip install "memory-sql[plots]"') from error


def drawn(weeks: Sequence[LifecycleWeek]) -> Figure:
    """The stages as areas over time."""
    from matplotlib.dates import date2num
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.stackplot(
        [date2num(week.at) for week in weeks],  # type: ignore[no-untyped-call]
        [[week.stages[stage] for week in weeks] for stage in CELLS],
        labels=list(CELLS),
        colors=list(COLOURS.values()),
    )
    axes.xaxis_date()
    axes.set_ylabel("observations")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.tick_params(axis="x", labelrotation=30)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True)
    return figure
