"""An import report as text for a terminal and as Markdown for a file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from memory_sql.cli.output import plain

if TYPE_CHECKING:
    from memory_sql.domain.results import ImportReport

COUNTS = ("source", "migrated", "merged", "skipped", "rejected")


def as_text(report: ImportReport) -> str:
    from memory_sql.importers.anomalies import ANOMALIES

    widest = max((len(name) for name in report.collections), default=0)
    lines = [f"{'':<{widest}}" + "".join(f"{name:>12}" for name in COUNTS)]
    lines += [
        f"{name:<{widest}}" + "".join(f"{found[count]:>12,}" for count in COUNTS)
        for name, found in report.collections.items()
    ]
    lines += ["", *(f"{count:>8,}  {reason}" for reason, count in report.reasons.items())]
    if report.anomalies:
        lines += ["", *(f"{count:>8,}  {code}: {ANOMALIES[code].what}" for code, count in report.anomalies.items())]
    lines += [f"cut off: {error}" for error in report.cut_off]
    lines += [f"can't be read: {error}" for error in report.unreadable]
    lines += [f"not accounted for: {name}" for name in report.unaccounted]
    head = "dry run: nothing was written" if report.run is None else f"import {report.run}"
    return "\n".join([head, "", *lines])


def as_markdown(report: ImportReport) -> str:
    """The same with an explanation of each reason and anomaly, and the next steps; ends with a newline."""
    title = "# What an import would do" if report.run is None else f"# Import {report.run}"
    parts = [
        [title, *(["", "Nothing was written."] if report.run is None else [])],
        list(_table(("collection", *COUNTS), _collections(report), numbers=5)),
        _part("Not imported as documents of their own", _table(REASON, _reasons(report))),
        _part("Anomalies", _table(ODD, _anomalies(report))),
        _part("What can't be read", _errors(report)),
        _part("What to do next", [f"{n}. {step}" for n, step in enumerate(_steps(report), start=1)]),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


REASON = ("collection", "what", "documents", "why")
ODD = ("code", "documents", "what", "what the import does")


def _part(title: str, lines: Iterable[str]) -> list[str]:
    """Empty without lines."""
    told = list(lines)
    return [f"## {title}", "", *told] if told else []


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> Iterator[str]:
    """The last `numbers` columns are aligned as numbers; nothing without rows."""
    if rows:
        yield _row(heads)
        yield "|" + "---|" * (len(heads) - numbers) + "---:|" * numbers
        yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(plain(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _collections(report: ImportReport) -> list[list[str]]:
    rows = [[name, *(f"{found[count]:,}" for count in COUNTS)] for name, found in report.collections.items()]
    sums = [sum(found[count] for found in report.collections.values()) for count in COUNTS]
    return [*rows, ["all", *(f"{count:,}" for count in sums)]]


def _reasons(report: ImportReport) -> list[list[str]]:
    from memory_sql.importers.anomalies import REASONS

    found = []
    for said, count in report.reasons.items():
        collection, _, rest = said.partition(": ")
        outcome, _, reason = rest.partition(", ")
        found.append(
            [collection, outcome, f"{count:,}", f"{reason}: {REASONS[reason]}" if reason in REASONS else reason]
        )
    return found


def _anomalies(report: ImportReport) -> list[list[str]]:
    from memory_sql.importers.anomalies import ANOMALIES

    return [
        [code, _counted(count, ANOMALIES[code].counts), ANOMALIES[code].what, ANOMALIES[code].rule]
        for code, count in report.anomalies.items()
    ]


def _counted(count: int, what: str) -> str:
    return f"{count:,}" if what == "documents" else f"{count:,} {what}"


def _errors(report: ImportReport) -> list[str]:
    cut_off = [f"- {plain(error)}; what follows it is missing" for error in report.cut_off]
    return [*cut_off, *(f"- {plain(error)}" for error in report.unreadable)]


def _steps(report: ImportReport) -> Iterator[str]:
    if report.unaccounted:
        yield f"Report this as a bug of the importer: {', '.join(report.unaccounted)} doesn't add up."
    if report.cut_off or report.unreadable:
        yield "Dump again what can't be read, and run the same command: what was imported before is skipped."
    if report.run is None:
        yield "Check the rejected documents and the anomalies, then run the command without `--dry-run`."
        return
    if any(found["rejected"] for found in report.collections.values()):
        yield "`memory.import_rejects` lists each rejected document with its file and byte."
    verify = f"`memory-sql import verify {report.run}`"
    yield f"{verify}, with the same source, compares every text; then `memory-sql admin verify`."
    if "re_embed" in report.anomalies:
        yield "`memory-sql work embed` makes the vectors again."
    yield f"To go back: `memory-sql import rollback {report.run} --yes` removes what was imported, and nothing else."
