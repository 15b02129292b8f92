"""Plain stores of the same facts, at the same tokens: what a ranking by cosine or BM25 shows in the place of our lines.

All recorded observations that the asker may see are ranked, overtaken ones too: nothing tells a plain store that they are. As
many are shown as have room in the tokens of the lines that a context shows for the same question; the texts count as they do
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from benchmarks.recall.recorded import Conversations, Row
from memory_sql.languages.text import count_tokens

Scores = Callable[[str], Sequence[float]]
Maker = Callable[[Sequence[str]], Scores]


def by_cosine(texts: Sequence[str]) -> Scores:
    from benchmarks.recall.rivals.embedding import vector  # noqa: PLC0415 - only where there is an encoder

    vectors = [vector(text) for text in texts]

    def scores(query: str) -> Sequence[float]:
        meant = vector(query)
        return [float(one @ meant) for one in vectors]

    return scores


def by_bm25(texts: Sequence[str]) -> Scores:
    import bm25s  # noqa: PLC0415 - only where it is installed
    import Stemmer  # noqa: PLC0415

    stemmer = Stemmer.Stemmer("english")

    def tokens(said: Sequence[str]) -> Any:
        return bm25s.tokenize(list(said), stopwords="en_plus", stemmer=stemmer, show_progress=False)

    ranking = bm25s.BM25()
    ranking.index(tokens(texts), show_progress=False)

    def scores(query: str) -> Sequence[float]:
        found, values = ranking.retrieve(tokens([query]), k=len(texts), show_progress=False)
        by_place = dict(zip(found[0].tolist(), values[0].tolist(), strict=True))
        return [by_place[n] for n in range(len(texts))]

    return scores


def stores() -> Iterator[tuple[str, Maker, bool]]:
    """Name, ranking, and whether the search cues are read too."""
    yield "plain cosine", by_cosine, False
    yield "plain cosine with cues", by_cosine, True
    if find_spec("bm25s") and find_spec("Stemmer"):
        yield "plain BM25", by_bm25, False
        yield "plain BM25 with cues", by_bm25, True


def visible(conversations: Conversations, asker: str) -> list[Row]:
    groups = {f"group:{group}" for m in conversations.messages for group in m.get("group_ids", ())}
    return [row for row in conversations.observations if row["scope"] in {f"individual:{asker}", *groups}]


def lines_within(rows: Sequence[Row], scores: Sequence[float], tokens: int) -> list[Row]:
    """The best, as far as their lines have room; one at least."""
    ranked = [row for _, row in sorted(zip(scores, rows, strict=True), key=lambda one: -one[0])]
    shown = list[Row]()
    for row in ranked:
        if shown and count_tokens("\n".join(f"- {one['content']}" for one in (*shown, row))) > tokens:
            break
        shown.append(row)
    return shown


def beside(
    conversations: Conversations, shown: Sequence[Any], line: Callable[[Row, bool], Any]
) -> Mapping[str, list[Any]]:
    """The same questions with the lines that each store would show; `line` makes one of an observation that holds or not."""
    found: dict[str, list[Any]] = {}
    for name, maker, cued in stores():
        made = dict[str, tuple[list[Row], Scores]]()
        for one in shown:
            asker = one.question.asker
            if asker not in made:
                rows = visible(conversations, asker)
                texts = ["; ".join((row["content"], *(row["terms"] if cued else ()))) for row in rows]
                made[asker] = rows, maker(texts)
            rows, scores = made[asker]
            chosen = lines_within(rows, scores(one.question.text), one.tokens)
            lines = [line(row, conversations.holds(row["content"])) for row in chosen]
            found.setdefault(name, []).append(replace(one, lines=lines))
    return found
