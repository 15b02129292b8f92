"""Takes the safeguards out, one at a time, in a copy of the project: the tests must notice each.

python -m tests.prove.mutations
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TESTS = [f"tests/integration/test_{name}.py" for name in ("add", "formation", "consolidation", "recovery")]


class Mutation(NamedTuple):
    name: str
    changes: tuple[tuple[str, str, str], ...]  # file, what stands there, what is put in its place


CREATE_TABLES = "migrations/versions/2026-11-21-2310_create_tables.py"
UNIQUE_MESSAGE_ID = """        sa.UniqueConstraint(
            "agent_key", "session_id", "message_id", name="messages_agent_key_session_id_message_id_key"
        ),
"""
MUTATIONS = (
    Mutation(
        "no compare-and-swap on the version",
        (("memory_sql/db/consolidations.py", "ScopeRow.version == state.version, ", ""),),
    ),
    Mutation(
        "no epoch in the compare-and-swap",
        (("memory_sql/db/consolidations.py", ", ScopeRow.epoch == state.epoch)", ")"),),
    ),
    Mutation(
        "no fence on scopes",
        (("memory_sql/db/scopes.py", ", ScopeRow.fence == state.fence)", ")"),),
    ),
    Mutation(
        "no fence on sessions",
        (("memory_sql/db/sessions.py", "        SessionRow.fence == state.fence,\n", ""),),
    ),
    Mutation(
        "no check of the cursor",
        (("memory_sql/db/sessions.py", "                SessionRow.formed_number == state.formed_number,\n", ""),
         ("memory_sql/db/sessions.py", "        SessionRow.fence == state.fence,\n", "")),
    ),
    Mutation(
        "no epoch of what the prompt showed",
        (("memory_sql/formation.py", "epochs.get(scope_id) != epoch for", "False for"),),
    ),
    Mutation(
        "no unique message id",
        ((CREATE_TABLES, UNIQUE_MESSAGE_ID, ""),),
    ),
    Mutation(
        "no look for messages that are there",
        (("memory_sql/db/functions/add_messages.sql", "k.message_id = g.id", "k.message_id = g.id AND false"),
         ("migrations/versions/2026-11-22-0005_add_retries.py", "k.message_id = g.id", "k.message_id = g.id AND false")),
    ),
    Mutation(
        "what was passed over is not marked",
        (("memory_sql/consolidation.py", "    await versions.mark_passed(", "    False and await versions.mark_passed("),),
    ),
    Mutation(
        "the session's row is not locked",
        (("migrations/versions/2026-11-22-0005_add_retries.py", " FOR NO KEY UPDATE", ""),),
    ),
)  # fmt: skip


def mutate(folder: Path, mutation: Mutation) -> None:
    for name, before, after in mutation.changes:
        path = folder / name
        text = path.read_text()
        assert before in text, f"{mutation.name}: {name} no longer holds {before!r}"
        path.write_text(text.replace(before, after))


def passes(mutation: Mutation) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__"))
        mutate(folder, mutation)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1), done.stdout
        return done.returncode == 0


def main() -> int:
    assert passes(Mutation("nothing", ())), "the tests fail as it is"
    missed = []
    for mutation in MUTATIONS:
        noticed = not passes(mutation)
        print(f"{'noticed' if noticed else 'MISSED':8} {mutation.name}", flush=True)
        missed += [] if noticed else [mutation.name]
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
