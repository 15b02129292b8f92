"""Reports the measurements as a table, as Markdown, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from benchmarks.recall.ablation import MEASURES, Ablated
from benchmarks.recall.data import ANSWERABLE, CATEGORIES, Dataset, Question
from benchmarks.recall.metrics import Interval, Scores, bootstrap, mean, mean_scores, percentile
from benchmarks.recall.run import Measured

EMPTY = "arm empty"
_HEAD = "system, text, R@5, 95 %, R@10, R@20, hit@5, MRR, nDCG@10, session@5, p50 ms, p95 ms, load s".split(", ")
_BAR_WIDTH, _ROW_HEIGHT, _LEFT = 520, 28, 130


@dataclass(frozen=True, slots=True)
class Report:
    """`missing`: by name, why a system has no figures. `measured`: each system in all of its forms."""

    dataset: Dataset
    measured: Sequence[Measured]
    missing: Mapping[str, str] = field(default_factory=dict)
    ablated: Sequence[Ablated] = ()

    @property
    def questions(self) -> Sequence[Question]:
        return self.dataset.questions

    @property
    def asked(self) -> tuple[int, ...]:
        """The categories of the questions."""
        return tuple(sorted({question.category for question in self.questions}))

    @property
    def best(self) -> list[Measured]:
        """For each system its form with the best recall@5 on the answerable questions, in the order of measuring."""
        found: dict[str, Measured] = {}
        for run in self.measured:
            known = found.get(run.system)
            if known is None or self.recall_5(run) > self.recall_5(known):
                found[run.system] = run
        return list(found.values())

    def recall_5(self, run: Measured, categories: Collection[int] = ANSWERABLE) -> float:
        return mean([score.recall_5 for score in run.of(self.questions, categories)])

    def interval(self, run: Measured) -> Interval:
        return bootstrap([score.recall_5 for score in run.of(self.questions, ANSWERABLE)])


def tables(report: Report) -> list[list[list[str]]]:
    """Tables as rows of cells, head first: measures over the answerable questions, recall@5 by category, ablations."""
    found = [_overall(report), _by_category(report)]
    return [*found, _ablations(report.ablated)] if report.ablated else found


def _overall(report: Report) -> list[list[str]]:
    rows = [_row(report, run) for run in report.best]
    return [list(_HEAD), *rows, *(_without_figures(name, reason) for name, reason in report.missing.items())]


def _row(report: Report, run: Measured) -> list[str]:
    if run.answers.is_empty:
        return _without_figures(run.system, EMPTY)
    means, interval = mean_scores(run.of(report.questions, ANSWERABLE)), report.interval(run)
    times = [percentile(run.answers.milliseconds, share) for share in (0.5, 0.95)]
    return [
        run.system,
        run.form,
        _percent(means.recall_5),
        f"{_percent(interval.low)}–{_percent(interval.high)}",
        *(_percent(value) for value in (means.recall_10, means.recall_20, means.hit_5, means.mrr, means.ndcg_10)),
        _percent(means.session_5),
        *(f"{value:.1f}" for value in (*times, run.load_seconds)),
    ]


def _by_category(report: Report) -> list[list[str]]:
    counts = {c: sum(question.category == c for question in report.questions) for c in report.asked}
    head = ["R@5", *(f"{CATEGORIES[category]} ({count})" for category, count in counts.items())]
    rows = [
        [run.system, *(_percent(report.recall_5(run, {category})) for category in report.asked)]
        for run in report.best
        if not run.answers.is_empty
    ]
    return [head, *rows]


def _ablations(ablated: Sequence[Ablated]) -> list[list[str]]:
    head = ["without", "its value", *(f"Δ {measure.replace('_', '@')}" for measure in MEASURES)]
    return [
        head,
        *(
            [f"{item.system}: {item.field}", f"{item.value:g} → {item.neutral:g}", *map(_change, item.changes.values())]
            for item in ablated
        ),
    ]


def _change(change: Any) -> str:
    return f"{change.points:+.1f} ({change.interval.low:+.1f} … {change.interval.high:+.1f})"


def _without_figures(name: str, reason: str) -> list[str]:
    return [name, reason, *[""] * (len(_HEAD) - 2)]


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"


def text(report: Report) -> str:
    return "\n\n".join(_aligned(table) for table in tables(report))


def _aligned(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(_line(row, widths) for row in table)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names are aligned left, figures right."""
    cells = enumerate(zip(row, widths, strict=True))
    return "  ".join(cell.ljust(width) if n < 2 else cell.rjust(width) for n, (cell, width) in cells).rstrip()


def markdown(report: Report) -> str:
    return "\n\n".join(_markdown(table) for table in tables(report))


def _markdown(table: Sequence[Sequence[str]]) -> str:
    head, *rows = table
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def as_json(report: Report) -> dict[str, Any]:
    """All measurements, in all forms. Shares are between 0 and 1."""
    return {
        "turns": len(report.dataset.turns),
        "questions": len(report.questions),
        "systems": [_run_as_json(report, run) for run in report.measured],
        "missing": dict(report.missing),
        "ablations": [asdict(item) for item in report.ablated],
    }


def _run_as_json(report: Report, run: Measured) -> dict[str, Any]:
    def means(categories: Collection[int]) -> dict[str, float]:
        scores: Scores = mean_scores(run.of(report.questions, categories))
        return asdict(scores)

    return {
        "system": run.system,
        "text": run.form,
        "empty": run.answers.is_empty,
        "load_seconds": run.load_seconds,
        "p50_milliseconds": percentile(run.answers.milliseconds, 0.5),
        "p95_milliseconds": percentile(run.answers.milliseconds, 0.95),
        "answerable": means(ANSWERABLE),
        "recall_5_interval": asdict(report.interval(run)),
        "categories": {CATEGORIES[category]: means({category}) for category in report.asked},
    }


def picture(report: Report) -> str:
    """Recall@5 with its interval, a bar per system, as SVG."""
    shown = sorted((run for run in report.best if not run.answers.is_empty), key=report.recall_5, reverse=True)
    bars = "\n".join(_bar(report, run, place) for place, run in enumerate(shown))
    size = f'width="{_LEFT + _BAR_WIDTH + 60}" height="{_ROW_HEIGHT * len(shown) + 8}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n{bars}\n</svg>\n'


def _bar(report: Report, run: Measured, place: int) -> str:
    share, interval = report.recall_5(run), report.interval(run)
    top = place * _ROW_HEIGHT + 8
    low, high, end = (_LEFT + value * _BAR_WIDTH for value in (interval.low, interval.high, share))
    middle = top + 10
    return (
        f'<text x="{_LEFT - 8}" y="{middle + 5}" text-anchor="end">{escape(run.system)}</text>'
        f'<rect x="{_LEFT}" y="{top}" width="{end - _LEFT:.1f}" height="20" fill="#4878a8"/>'
        f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#222" stroke-width="2"/>'
        f'<text x="{high + 8:.1f}" y="{middle + 5}">{_percent(share)} %</text>'
    )
