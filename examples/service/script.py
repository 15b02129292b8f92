"""What doesn't await: a nightly script that prints what is remembered of a customer."""

from __future__ import annotations

import sys

from memory_sql import Context
from memory_sql.sync import Memory


def main(url: str, customer: str) -> None:
    with Memory(url) as memory:
        memory.observe("Was written to.", agent_id="harbour-desk", user_id=customer, kind="episode", importance=0.2)
        context: Context = memory.context(agent_id="harbour-desk", user_id=customer)
        print(context)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
