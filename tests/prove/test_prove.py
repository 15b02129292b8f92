"""A part of each proof in CI, everything in `make prove`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from memory_sql.db.roles import Roles
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.prove import failover, mutations
from tests.prove.state_machine import Life
from tests.sharding import joined
from tests.sizes import few_in_ci, parts_of_today, share

ROOT = Path(__file__).parents[2]


def run(module: str, *arguments: str) -> None:
    """In a process of its own: it forks, and pytest must not be what is forked."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"tests.prove.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_every_mutation_still_has_something_to_change() -> None:
    gone = [
        mutation.name
        for mutation in mutations.MUTATIONS
        for change in mutation.changes
        if next(mutations.places(ROOT, change), None) is None
    ]
    assert gone == []


@pytest.mark.slow
@pytest.mark.open
def test_ten_kills_lose_and_double_nothing(database_url: str) -> None:
    run("kills", "--url", database_url, "--kills", "10")


@pytest.mark.prove
def test_a_thousand_kills_and_fifty_crashes_of_the_database(tmp_path: Path) -> None:
    options = "--kills 1000 --crashes 50 --exec --pause 0.8 --drain 60".split()
    run("kills", "--embedded", str(tmp_path / "postgres"), *options)


@pytest.mark.prove
@pytest.mark.skipif(
    failover.ETCD is None or failover.PATRONI is None,
    reason="etcd-server, or failover-requirements.txt, isn't installed",
)
def test_twenty_kills_of_the_leader_lose_double_and_resurrect_nothing() -> None:
    run("failover", "--kills", "20")


@pytest.mark.slow
def test_a_kill_at_some_points(database_url: str) -> None:
    run("boundaries", "--url", database_url, "--every", str(280 // share(10)))


@pytest.mark.prove
def test_a_kill_at_every_point(database_url: str) -> None:
    run("boundaries", "--url", database_url)


@pytest.mark.slow
async def test_a_move_to_another_shard_that_is_killed_at_some_points(server_url: str, template: str) -> None:
    async with joined(server_url, template, "a", "b") as urls:
        await asyncio.to_thread(run, "moves", "--a", urls["a"], "--b", urls["b"], "--kills", "2")


@pytest.mark.prove
async def test_a_move_to_another_shard_that_is_killed_at_every_point(server_url: str, template: str) -> None:
    async with joined(server_url, template, "a", "b") as urls:
        await asyncio.to_thread(run, "moves", "--a", urls["a"], "--b", urls["b"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "pair",
    few_in_ci(
        ["--first refused --second forget_garden", "--first forget_begun --second begun --nested"],
        ["--first refused --second forget_garden"],
    ),
)
def test_a_pair_of_operations_leaves_what_one_after_the_other_leaves(empty_database: str, pair: str) -> None:
    run("interleavings", "--url", empty_database, *pair.split())


@pytest.mark.prove
def test_a_sixteenth_of_all_pairs_leaves_what_one_after_the_other_leaves(empty_database: str) -> None:
    """All of them take eight hours."""
    for part in parts_of_today(16):
        run("interleavings", "--url", empty_database, "--part", f"{part}/16")


@pytest.mark.prove
def test_who_begins_while_being_forgotten_renamed_or_merged(empty_database: str) -> None:
    first = (
        "forget_nina,forget_band,forget_four,rename_nina,rename_band,rename_four,merge_nina,leave_nina,quarantine_nina"
    )
    run("interleavings", "--url", empty_database, "--nested", "--first", first, "--second", "nina_begins,nina_observes")


def live_randomly(url: str, lives: int, steps: int) -> Counter[str]:
    """How often something happened that is worth proving, and how many steps that took."""
    did: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        machine = type("Life", (Life,), {"url": url, "runner": runner, "did": did})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=lives,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )

        async def verify() -> None:
            async with Memory(url, Offline()) as memory:
                assert list(await memory.admin.verify()) == []

        runner.run(verify())
    print(did)
    return did


@pytest.mark.slow
def test_random_lives_are_what_the_model_says(database_url: str) -> None:
    assert live_randomly(database_url, lives=max(4, share(20)), steps=30)["steps"] > share(300)


@pytest.mark.prove
def test_many_random_lives_are_what_the_model_says(database_url: str) -> None:
    did = live_randomly(database_url, lives=250, steps=60)
    assert did["steps"] > 10_000
    assert len(did) == 15
    assert min(did.values()) >= 5


@pytest.mark.slow
def test_eighty_operations_of_everything_at_once(tmp_path: Path) -> None:
    run("concurrent_life", "--embedded", str(tmp_path / "postgres"), "--operations", "80", "--stops", "1")


@pytest.mark.prove
def test_ten_thousand_operations_of_everything_at_once(tmp_path: Path) -> None:
    options = "--seeds 3 --operations 3400 --stops 3 --least 15".split()
    run("concurrent_life", "--embedded", str(tmp_path / "postgres"), *options)


@pytest.mark.slow
def test_eighty_operations_over_two_shards(tmp_path: Path) -> None:
    run("concurrent_life", "--embedded", str(tmp_path / "postgres"), "--operations", "80", "--shards")


@pytest.mark.prove
def test_three_thousand_operations_over_two_shards(tmp_path: Path) -> None:
    options = "--shards --seeds 3 --operations 1000 --stops 2".split()
    run("concurrent_life", "--embedded", str(tmp_path / "postgres"), *options)


@pytest.mark.slow
def test_a_round_of_what_goes_on_for_long(tmp_path: Path) -> None:
    run("soak", "--embedded", str(tmp_path / "postgres"), "--minutes", "0.05", "--operations", "20")


@pytest.mark.prove
def test_nothing_grows_in_half_an_hour_of_everything_at_once(tmp_path: Path) -> None:
    run("soak", "--embedded", str(tmp_path / "postgres"), "--minutes", "30")


@pytest.mark.slow
def test_random_principals_see_what_is_theirs_and_nothing_else(walled_database: str, roles: Roles) -> None:
    run("walls", "--url", walled_database, "--login", as_login(walled_database, roles), "--reads", str(share(300)))


@pytest.mark.prove
def test_a_hundred_thousand_reads_by_random_principals(walled_database: str, roles: Roles) -> None:
    run("walls", "--url", walled_database, "--login", as_login(walled_database, roles), "--reads", "100000")


@pytest.mark.prove
def test_tests_notice_each_safeguard_that_is_taken_out() -> None:
    run("mutations")


@pytest.mark.slow
def test_ten_thousand_legacy_records_come_out_as_planted() -> None:
    run("legacy_sizes", "--records", "10000")


@pytest.mark.prove
@pytest.mark.parametrize("form", ["dump", "packed lines"])
def test_a_million_legacy_records_take_little_memory(form: str) -> None:
    run("legacy_sizes", "--records", "1000000", "--format", form)


@pytest.mark.slow
def test_an_import_that_is_killed_now_and_then_brings_the_same(database_url: str) -> None:
    run("killed_imports", "--url", database_url, "--kills", "2", "--agents", "1")


@pytest.mark.prove
def test_an_import_that_is_killed_a_hundred_times_brings_the_same(database_url: str) -> None:
    run("killed_imports", "--url", database_url, "--kills", "100", "--agents", "10")
