"""How often the rule fires that decides to retrieve: on questions, where it should, and on ordinary turns.

`python -m benchmarks.recall.trigger DIRECTORY [--show]`: `conv-*.jsonl` (`name`, `content`) and `questions.jsonl` (`conv`,
`category`, `question`).
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from memory_sql.retrieval.decide import Fired, should_retrieve

Judged = tuple[str, Fired | None]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def rate(judged: Sequence[Judged]) -> float:
    return sum(fired is not None for _, fired in judged) / len(judged) if judged else 0.0


def line(title: str, judged: Sequence[Judged]) -> str:
    reasons = Counter(f"{fired.reason} ({fired.kind})" for _, fired in judged if fired)
    told = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    return f"{title:34} {rate(judged):7.2%} of {len(judged):5}  {told}"


def judge(texts: Iterable[str], context: str, names: Iterable[str]) -> list[Judged]:
    return [(text, should_retrieve(text, context, names)) for text in texts]


def main(directory: Path, *, show: bool) -> None:
    turns = {path.stem: lines_of(path) for path in sorted(directory.glob("conv-*.jsonl"))}
    questions = lines_of(directory / "questions.jsonl")
    for title, with_context, with_names in (
        ("nothing known", False, False), ("the speakers in the context", True, False), ("the speakers as names", False, True)
    ):  # fmt: skip
        asked, said = defaultdict[str, list[Judged]](list), list[Judged]()
        began = time.process_time()
        for conversation, messages in turns.items():
            speakers = tuple(dict.fromkeys(message["name"] for message in messages))
            context, names = " ".join(speakers) if with_context else "", speakers if with_names else ()
            said += judge((message["content"] for message in messages), context, names)
            for question in questions:
                if question["conv"] == conversation:
                    asked[f"category {question['category']}"] += judge([question["question"]], context, names)
        took = time.process_time() - began
        everything = [judged for some in asked.values() for judged in some]
        print(f"## {title}: {took / (len(said) + len(everything)) * 1e6:.0f} µs a call")
        for name in sorted(asked):
            print(line(name, asked[name]))
        print(line("all questions", everything))
        print(line("turns", said))
        if show:
            print("missed:", *(text for text, fired in everything if not fired), sep="\n   ")
            print("fired on:", *(f"{fired.kind}: {text}" for text, fired in said if fired), sep="\n   ")


if __name__ == "__main__":
    main(Path(sys.argv[1]), show="--show" in sys.argv[2:])
