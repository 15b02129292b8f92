"""The tools of the benchmarks: counting messages of the Postgres protocol, and making texts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from benchmarks import scale
from benchmarks.crowd import commonest, vocabulary, words
from benchmarks.wire import Frames, Wire

TLS = (8).to_bytes(4) + (80_877_103).to_bytes(4)
START = (17).to_bytes(4) + (3 << 16).to_bytes(4) + b"user\0mia\0"


def frame(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + (len(body) + 4).to_bytes(4) + body


def test_messages_are_cut_wherever_the_bytes_are_torn() -> None:
    sent = (
        TLS + START + frame("P", b"SELECT Q\0") + frame("B") + frame("E", b"\0") + frame("S") + frame("Q", b"COMMIT\0")
    )
    for size in (1, 3, 7, len(sent)):
        frames = Frames()
        pieces = [sent[n : n + size] for n in range(0, len(sent), size)]
        assert [kind for piece in pieces for kind in frames.feed(piece)] == list("PBESQ")


def test_message_that_is_not_complete_waits() -> None:
    frames = Frames()
    assert frames.feed(START + frame("Q", b"SELECT 1\0")[:-1]) == []
    assert frames.feed(b"\0") == ["Q"]


def test_statements_and_round_trips_are_told_apart() -> None:
    wire = Wire("", Counter("QPDHBESX"))
    assert (wire.statements, wire.round_trips) == (2, 3)


def test_words_are_as_uneven_as_those_of_a_language() -> None:
    drawn = Counter(words(random.Random(1), 100_000).split())
    assert len(set(vocabulary())) == len(vocabulary()) == 20_000
    first, hundredth = (drawn[vocabulary()[n]] for n in (0, 99))
    assert first / hundredth == pytest.approx(110 / 11, rel=0.25)  # 1 / (rank + 10)
    assert commonest(2).split() == list(vocabulary()[:2])


def test_sizes_are_rising_multiples_of_a_scope(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.arguments(["--sizes", "1000,20000"]).sizes == [1000, 20_000]
    assert scale.arguments(["--sessions", "1,500"]).sessions == [1, 500]
    for wrong in ("2000,1000", "1500", "500", "0"):
        with pytest.raises(SystemExit):
            scale.arguments(["--sizes", wrong])
    assert "rising multiples" in capsys.readouterr().err
