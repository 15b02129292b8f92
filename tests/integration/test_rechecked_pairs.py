"""What rechecks find of 200 contradictions, and leave of 200 pairs that only look like it."""

import importlib.util
import sys
from collections import Counter
from typing import Any

import pytest

from memory_sql.consolidation.comparing import ComparedPair
from memory_sql.consolidation.replacing import FEWEST, SHARE
from memory_sql.llm.embeddings import ENCODER
from memory_sql.memory import Memory
from tests.database import rows
from tests.prove.rechecks import AGENT, Comparing, Place, by_truth, places, plant, rechecked, settings, told, undone
from tests.rechecking import Asked, Pair, contradictions, honest, lookalikes

HAS_ENCODER = importlib.util.find_spec(ENCODER) is not None
GAVE_WAY = "SELECT content FROM memory.v_observations WHERE status = 'superseded'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("embedding", "least"),
    [
        ("off", 0.95),
        pytest.param("local", 0.99, marks=pytest.mark.skipif(not HAS_ENCODER, reason="needs the extra vector")),
    ],
)
async def test_what_contradicts_is_found_and_what_only_looks_like_it_stays(
    database_url: str, embedding: str, least: float
) -> None:
    """The model answers by the set: what is measured is which pairs it is asked about, and what comes of its answers."""
    real, alike = contradictions(), lookalikes()
    llm = Comparing(by_truth([*real, *alike]))
    async with Memory(database_url, llm, settings(embedding)) as memory:
        done = await rechecked(memory, llm, places())
        sys.stdout.write("\n".join(told(done)) + "\n")
        assert len(done.found(real)) >= least * len(real)
        assert done.superseded(alike) == []  # a part that holds waits for a person
        assert {pair.earlier for pair in alike if pair.kind == "part"} <= set(done.held)
        assert not {pair.earlier for pair in alike if pair.kind != "part"} & set(done.held)
        assert list(await memory.admin.verify()) == []
        assert await undone(memory, done.scopes) == 0
        assert list(await memory.admin.verify()) == []


def says_of(asked: Asked) -> Any:
    return lambda pair: asked.said.get((pair.earlier.content, pair.later.content))


@pytest.mark.parametrize("n", range(4))
async def test_honest_answers_are_stored_as_they_are_meant(database_url: str, n: int) -> None:
    asked = honest()[n]
    llm = Comparing(says_of(asked))
    pairs = [Pair("both", "en", *texts) for texts in asked.pairs]
    async with Memory(database_url, llm, settings("off")) as memory:
        done = await rechecked(memory, llm, [Place({"user_id": "u"}, pairs)])
        assert set(asked.said) <= done.asked
        gone = {texts[0] for texts, one in asked.said.items() if one["is"] == "contradicts" and one["still"] is None}
        part = {texts[0] for texts, one in asked.said.items() if one.get("still")}
        repeated = {texts[1] for texts, one in asked.said.items() if one["is"] == "same"}
        assert {*done.gone, *done.held} == gone | part | repeated
        assert set(done.held) >= part
        assert len(done.gone) >= min(len(gone), len(pairs) // SHARE)  # the rest beyond the bound waits for a person
        assert await rows(memory, "SELECT DISTINCT refused::text FROM memory.runs WHERE kind = 'recheck'") == [("{}",)]


def of_everything(was: str | None) -> Any:
    """Says of each pair that the later one contradicts the earlier; `was` None: quotes all of that."""

    def says(pair: ComparedPair) -> dict[str, Any]:
        return {"is": "contradicts", "was": pair.earlier.content if was is None else was, "now": "no", "still": None}

    return says


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 20])
async def test_a_model_that_contradicts_everything_is_bounded(database_url: str, place: int) -> None:
    """As in a consolidation: a fifth of what is in use for a version; of others in a group a few in a day."""
    llm = Comparing(of_everything(None))
    async with Memory(database_url, llm, settings("off")) as memory:
        scope = await plant(memory, places()[place])
        await memory.work.recheck(**AGENT, scope_id=scope)
        by_version = (
            "SELECT version, count(*) FROM memory.events WHERE kind = 'status' AND version IS NOT NULL GROUP BY 1"
        )
        counts = dict(await rows(memory, by_version))
        ((rows_there,),) = await rows(memory, "SELECT count(*) FROM memory.observations")
        assert counts
        assert all(count <= max(FEWEST, rows_there // SHARE) for count in counts.values())
        assert list(await memory.admin.verify()) == []
        if place >= 20:
            of_first = {pair.earlier for pair in places()[place].pairs}
            overtaken = Counter(await rows(memory, GAVE_WAY + " AND superseded_by IS NOT NULL"))
            authors = (
                "SELECT count(*) FROM memory.observation_states t JOIN memory.evidence o USING (agent_key, scope_id, seq)"
                " JOIN memory.evidence n ON (n.agent_key, n.scope_id, n.seq) = (t.agent_key, t.scope_id, t.superseded_by)"
                " WHERE t.status = 'superseded' AND o.user_id <> n.user_id"
            )
            assert (overtaken.keys() & {(text,) for text in of_first}) or overtaken
            assert (await rows(memory, authors))[0][0] <= FEWEST
        assert await undone(memory, [scope]) == 0
        assert list(await memory.admin.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize("was", ["the", "is", "", "2026", "words that stand nowhere in it"])
async def test_words_that_say_nothing_supersede_nothing(database_url: str, was: str) -> None:
    llm = Comparing(of_everything(was))
    async with Memory(database_url, llm, settings("off")) as memory:
        done = await rechecked(memory, llm, places()[:1])
        assert (done.gone, done.held) == (Counter(), Counter())
        assert list(await memory.admin.verify()) == []
