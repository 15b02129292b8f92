"""Commands for the database itself: its schema, and the embedded server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import AsJson, Data, Url, named_database, resolve, tell_database

if TYPE_CHECKING:
    from memory_sql.db.contents import Contents
    from memory_sql.db.roles import Roles

app = tree.group("The schema, and the embedded Postgres.")

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
_NO_WALLS = "there is no schema here yet; restore it, or run this again after `memory-sql db upgrade`"
Revision = typer.Argument(metavar="REVISION", help="A revision, base for an empty database, or -1 for one step back.")


Wait = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", help="Keep trying for this long while another session holds a lock."),
]
PAUSE_SECONDS = 2.0
T = TypeVar("T")


def _patiently(seconds: float, work: Callable[[], T]) -> T:
    """Retries for that long while a lock isn't available; a failed attempt changes nothing."""
    from memory_sql.errors import LockTimeoutError

    until = monotonic() + seconds
    while True:
        try:
            return work()
        except LockTimeoutError as error:
            if monotonic() + PAUSE_SECONDS > until:
                raise
            output.complain(f"{error}; trying again in {PAUSE_SECONDS:g} s")
        sleep(PAUSE_SECONDS)


@contextmanager
def _all_reachable(url: str | None, data: Data) -> Iterator[Mapping[str | None, str]]:
    """The URLs of the shards by name, or that of the chosen database by None."""
    from memory_sql.config.shards import shards_of

    settings = resolve(url, data)
    if settings.shards is None:
        with _reachable(url, data) as target:
            yield {None: target}
        return
    tell_database(url, data, settings)
    yield dict[str | None, str](shards_of(settings.shards).items())


@contextmanager
def _reachable(url: str | None, data: Data) -> Iterator[str]:
    """The URL of the chosen database; the embedded one runs until the end. Raises `InputError` if there are shards."""
    from memory_sql import embedded
    from memory_sql.config.environment import warn_of_unread
    from memory_sql.errors import InputError

    settings = resolve(url, data)
    if settings.shards is not None:
        raise InputError("there are several shards; name one of their databases with --url")
    tell_database(url, data, settings)
    if settings.url is not None:
        yield settings.url.get_secret_value()
        return
    if settings.is_embedded_by_default:
        warn_of_unread(named_database(settings))
    with embedded.acquire(settings.embedded_data_dir) as server:
        yield server.url


def _schema() -> str:
    from memory_sql.config import Settings

    return Settings.load().schema


def _print(revision: str | None, as_json: bool, shard: str | None = None) -> None:
    _tell(
        {"revision": revision},
        lambda r: r["revision"] or "none: the database has no schema of memory_sql",
        as_json,
        shard,
    )


def _tell(row: Mapping[str, Any], text: Callable[[Any], str], as_json: bool, shard: str | None) -> None:
    """One line, which names the shard if there are some."""
    if shard is None:
        output.one(row, text, as_json)
    else:
        output.one({"shard": shard, **row}, lambda r: f"{shard}: {text(r)}", as_json)


def _join(targets: Mapping[str | None, str]) -> None:
    """The shards, once each has the schema of this release."""
    import asyncio

    from memory_sql.db.joining import join

    named = {name: url for name, url in targets.items() if name is not None}
    if named:
        asyncio.run(join(named, _schema()))


@app.command()
def upgrade(
    revision: Annotated[str, typer.Argument(metavar="[REVISION]", help="Upgrade to this revision.")] = "head",
    wait: Wait = 0,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Creates the schema, or brings it up to date.

    \b
    memory-sql db upgrade --url postgresql://me:secret@localhost/app

    Everything is in the schema `memory`; the rest of the database isn't touched. Several processes may run it at once. It
    fails if another session holds a lock for over three seconds, unless --wait says how long to keep trying. The embedded
    Postgres is brought up to date by every command. With shards (MEMORY_SQL_SHARDS) it does all of them, and a database
    without agents joins them: it takes the key of the home.
    """
    from memory_sql.db import migrate

    with _all_reachable(url, data) as targets:
        for target in targets.values():
            _patiently(wait, partial(migrate.upgrade, target, revision, schema=_schema()))
        if revision == "head":
            _join(targets)
        for shard, target in targets.items():
            _print(migrate.current(target, schema=_schema()), as_json, shard)


@app.command(context_settings={"ignore_unknown_options": True})  # -1 is a revision
def downgrade(
    revision: Annotated[str, Revision],
    yes: Yes = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Takes the schema back to an older revision.

    \b
    memory-sql db downgrade -1
    memory-sql db downgrade base       (removes everything that is remembered)

    What the older revision can't store is lost: the command says what there is, and asks first. It is refused while a legal
    hold is open.
    """
    from memory_sql.db import migrate
    from memory_sql.db.contents import contents

    with _reachable(url, data) as target:
        if not yes:
            _ask_to_drop(contents(target, _schema()), f"Go back to {revision} and lose what it can't store of this?")
        migrate.downgrade(target, revision, drop=True, schema=_schema())
        _print(migrate.current(target, schema=_schema()), as_json)


@app.command()
def current(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Prints the revision of the schema.

    \b
    memory-sql db current
    """
    from memory_sql.db import migrate

    with _all_reachable(url, data) as targets:
        for shard, target in targets.items():
            _print(migrate.current(target, schema=_schema()), as_json, shard)


@app.command()
def check(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Checks whether the schema is the one that this release needs.

    \b
    memory-sql db check || memory-sql db upgrade

    If it isn't, the exit code is 1.
    """
    from memory_sql.db import migrate

    with _all_reachable(url, data) as targets:
        for shard, target in targets.items():
            found = {"revision": migrate.check(target, schema=_schema())}
            _tell(found, lambda r: f"{r['revision']}: up to date", as_json, shard)


@app.command()
def reset(
    yes: Yes = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Deletes everything that is remembered, and creates the schema again.

    \b
    memory-sql db reset

    For a schema that an unreleased version created. Drops the schema `memory` with everything in it, and foreign keys and
    views of yours that refer to it. It says what there is, and asks first. It is refused while a legal hold is open, and if
    anything in the schema isn't ours, which it names. If the database has roles, run `memory-sql db roles` again afterwards.
    """
    from memory_sql.db import migrate

    with _reachable(url, data) as target:
        if not yes:
            _ask_to_drop(migrate.contents_to_drop(target, _schema()), "Delete everything that this database remembers?")
        migrate.reset(target, schema=_schema())
        _print(migrate.current(target, schema=_schema()), as_json)


def _ask_to_drop(counting: Coroutine[Any, Any, Contents], question: str) -> None:
    """Asks if something would be lost. Raises `HeldError`, and `InputError` if the answer is no or nobody can answer."""
    import asyncio

    from memory_sql.errors import InputError

    found = asyncio.run(counting)
    found.refuse_held()
    if not found:
        return
    if not output.can_ask():
        raise InputError(f"nothing was deleted; the database holds {found}: use --yes if nobody can answer")
    if not typer.confirm(f"This database holds {found}. {question}", err=True):
        raise InputError("nothing was deleted")


@app.command()
def roles(
    owner: Annotated[str, typer.Option("--owner", metavar="ROLE", help="Owns the tables.")] = "memory_owner",
    app: Annotated[str, typer.Option("--app", metavar="ROLE", help="The application's role.")] = "memory_app",
    analyst: Annotated[str, typer.Option("--analyst", metavar="ROLE", help="Reads everything.")] = "memory_analyst",
    drop: Annotated[bool, typer.Option("--drop", help="Drop the roles, and the owner's walls.")] = False,
    show: Annotated[bool, typer.Option("--print", "--dry-run", help="Only show the SQL.")] = False,
    wait: Wait = 0,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Creates the roles of a database with walls: a session that doesn't say on whose behalf it reads sees nothing.

    \b
    memory-sql db roles --url postgresql://postgres@localhost/app
    psql -c "GRANT memory_app TO my_login"

    The roles can't log in: grant them to roles that can. Run it as a superuser, or as a role that may create roles and owns
    the schema, and again after each upgrade. Without a schema it creates only the roles, which a restore needs. Besides the
    three there are ROLE_eraser and ROLE_reader for the application, and ROLE_content for analysts who may also see what was
    said.
    """
    import asyncio

    from memory_sql.db import roles as walls

    named = walls.Roles.of(owner, app, analyst)
    made = ", ".join(asdict(named).values())
    if show:
        print(walls.script(named, drop=drop, schema=_schema()), end="")
        return
    with _all_reachable(url, data) as targets:
        for shard, target in targets.items():
            if drop:
                left = asyncio.run(walls.drop(target, named, _schema()))
                _tell(
                    {"left": left}, lambda r: f"dropped; still there: {', '.join(r['left']) or 'none'}", as_json, shard
                )
                continue
            walled = _patiently(wait, partial(_make_roles, target, named))
            row = {**asdict(named), "walled": walled}
            _tell(row, lambda r: made if r["walled"] else f"{made}: {_NO_WALLS}", as_json, shard)


def _make_roles(target: str, named: Roles) -> bool:
    import asyncio

    from memory_sql.db import roles as walls

    return asyncio.run(walls.make(target, named, _schema()))


@app.command()
def start(data: Data = None, as_json: AsJson = False) -> None:
    """Starts the embedded Postgres and leaves it running.

    \b
    memory-sql db start

    Prints its URL. Other commands start and stop it themselves; they are faster while it runs.
    """
    from memory_sql import embedded

    directory = resolve(None, data).embedded_data_dir
    output.one({"url": embedded.start(directory), "data_dir": directory}, lambda r: str(r["url"]), as_json)


@app.command()
def stop(
    data: Data = None,
    force: Annotated[bool, typer.Option("--force", help="Stop it even while other processes use it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stops the embedded Postgres.

    \b
    memory-sql db stop
    """
    from memory_sql import embedded

    stopped = embedded.stop(resolve(None, data).embedded_data_dir, force=force)
    output.one({"stopped": stopped}, lambda r: "stopped" if r["stopped"] else "it wasn't running", as_json)


@app.command("url")
def show_url(
    data: Data = None,
    psql: Annotated[bool, typer.Option("--psql", help="In the form that psql and other programs accept.")] = False,
    programs: Annotated[
        bool, typer.Option("--programs", help="The directory of its psql, pg_dump and pg_restore instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Prints the URL of the embedded Postgres.

    \b
    memory-sql db start && psql "$(memory-sql db url --psql)"
    "$(memory-sql db url --programs)/pg_dump" --file=memory.sql "$(memory-sql db url --psql)"

    The URL is the same whether the server runs or not; commands that use it start it.
    """
    from memory_sql import embedded

    directory = resolve(None, data).embedded_data_dir
    found = embedded.url(directory)
    shown = found.replace("postgresql+asyncpg://", "postgresql://", 1) if psql else found
    row = {"url": shown, "running": embedded.running(directory), "data_dir": directory}
    if programs:
        row["programs"] = embedded.programs()
    output.one(row, lambda r: str(r["programs" if programs else "url"]), as_json)


@app.command()
def vacuum(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Frees the space of forgotten rows in tables and indexes; until then Postgres keeps old row versions.

    \b
    memory-sql db vacuum --url postgresql://me:secret@localhost/app

    Others may read and write meanwhile. The write-ahead log and backups still contain the rows until they expire.
    """
    import asyncio

    from memory_sql.db.vacuum import PHYSICAL, vacuum

    with _all_reachable(url, data) as targets:
        for shard, target in targets.items():
            asyncio.run(vacuum(target, _schema()))
            _tell({"statements": PHYSICAL}, lambda done: f"ran {len(done['statements'])} statements", as_json, shard)


@app.command()
def renew(url: Url = None, data: Data = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Gives a copy of a database an id of its own, so that what is forgotten in the other one isn't taken for its own.

    \b
    memory-sql db renew --yes --url postgresql://me:secret@localhost/staging

    For a copy that lives on beside the original, such as staging made from production. Not for a restored backup: that one
    has to forget what was forgotten after it. The key of its hashes stays: what is hashed couldn't be found under another.
    """
    import asyncio

    from memory_sql.db.migrate import renew

    if not yes and not typer.confirm("Is this a copy beside the original, and no restored backup?"):
        raise typer.Exit(1)
    with _reachable(url, data) as target:
        found = asyncio.run(renew(target, _schema()))
    output.one({"database": found}, lambda one: f"this database is {one['database']} from now on", as_json)
