"""Keys of the HTTP server: create, list, revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Actor, AsJson, Data, Url, moment, run

if TYPE_CHECKING:
    from memory_sql.domain.keys import Key, NewKey

app = tree.group("Keys of the HTTP server: who may ask it for what.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.")],
    rights: Annotated[
        str, typer.Option("--rights", metavar="RIGHTS", help="Some of read, write, forget, admin, with commas.")
    ] = "read,write",
    agents: Annotated[
        list[str] | None, typer.Option("--agent", metavar="ID", help="Only for this agent; may be repeated.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="It stands for this user; else its holder names the user."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="From when on it isn't accepted: 2027-03-02T10:15:00Z."),
    ] = None,
    actor: Actor = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a key for `memory-sql serve` and prints its secret, only this once.

    \b
    memory-sql key create "chat service" --agent ada
    memory-sql key create "Mia's page" --agent ada --user mia --rights read,forget
    """
    from memory_sql.domain.keys import rights_of

    ends, allowed = moment("--expires", expires), rights_of(right.strip() for right in rights.split(","))
    made = run(
        url,
        data,
        lambda memory: memory.keys.create(
            name,
            rights=allowed,
            agents=agents or None,
            user_id=user,
            expires_at=ends,
            actor=actor,
        ),
    )
    output.one(made, _new_text, as_json)


@app.command("list")
def list_keys(
    revoked: Annotated[bool, typer.Option("--revoked", help="Also show revoked and expired ones.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the keys, oldest first; never their secrets.

    \b
    memory-sql key list
    """
    found = run(url, data, lambda memory: memory.keys.list(revoked=revoked))
    output.rows(found, _key_text, as_json, "no keys yet")


@app.command()
def revoke(
    key_id: Annotated[int, typer.Argument(metavar="KEY_ID", help="The key, as `key list` shows it.")],
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Revokes a key: servers refuse it within ten seconds.

    \b
    memory-sql key revoke 3
    """
    output.one(run(url, data, lambda memory: memory.keys.revoke(key_id)), _key_text, as_json)


def _new_text(key: NewKey) -> str:
    return f"{key.secret}\n{_key_text(key)}"


def _key_text(key: Key) -> str:
    whose = "all agents" if key.agents is None else ", ".join(key.agents)
    user = f", user {key.user_id}" if key.user_id else ""
    ends = f", expires {output.minute(key.expires_at)}" if key.expires_at else ""
    ended = f", revoked {output.minute(key.revoked_at)}" if key.revoked_at else ""
    used = f", last used {key.last_used_on}" if key.last_used_on else ""
    allowed = f"{', '.join(key.rights)} of {whose}{user}{ends}{ended}{used}"
    return f"{key.key_id}  {key.prefix}…  {output.flat(key.name)}: {output.plain(allowed)}"
