"""What memory is about: list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_sql.cli import output, tree
from memory_sql.cli.options import Agent, AsJson, Data, Limit, Url, User, run

if TYPE_CHECKING:
    from memory_sql.domain.entities import Topic

app = tree.group("What memory is about: its heaviest terms.")


@app.command("list")
def list_topics(
    agent: Agent,
    user: User,
    limit: Limit = 50,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the heaviest terms (TF-IDF) of the newest 2,000 active observations, heaviest first; at most 50.

    \b
    memory-sql topic list --agent ada --user mia --limit 10
    """
    found = run(url, data, lambda memory: memory.topics.list(agent_id=agent, user_id=user, limit=limit))
    output.rows(found, _line, as_json, "no terms")


def _line(topic: Topic) -> str:
    return output.plain(f"{topic.weight:6.1f}  {topic.term}  {output.many(topic.observations, 'observation')}")
