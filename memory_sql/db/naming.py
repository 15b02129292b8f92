"""The name of our schema in the database. Code and SQL files say `memory`; other names are put in when a statement is sent.

Names stay qualified, so no `search_path` of a host, a role or a pooler can lead a statement to somebody else's
table or function.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Text, event, literal_column
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config.kinds import DEFAULT_SCHEMA

TRANSLATED = (
    "memory_sql.translated"  # in `Session.info`: the schema that the statements of the host's session are sent for
)
NAMED = "memory_sql.schema"  # in `Session.info`: the schema of a session of ours
OURS = "memory_sql_ours"  # execution option while our migrations run: in a host's Alembic, only theirs is translated
CHANNEL = "memory_due"  # what a worker listens to
PRINCIPAL = "memory.principal"  # the setting that `sql/visibility/principal.sql` reads
# Set and read in one transaction, whose statements are all of one schema.
_SETTINGS = ("memory.roles", "memory.copying")

# In a literal, single quotes are doubled; the body of a function or a DO is SQL as well.
_TOKENS = re.compile(
    r"""--[^\n]*
    |"(?:[^"]|"")*"
    |\b[eE]'(?:[^'\\]|\\.|'')*'
    |'(?P<literal>(?:[^']|'')*)'
    |(?P<tag>\$(?:[A-Za-z_]\w*)?\$)(?P<body>.*?)(?P=tag)
    |(?P<name>(?<![\w$.])memory(?=\.)
        |(?<=\bSCHEMA[ ])memory\b
        |(?<=\bSCHEMA[ ]IF[ ]EXISTS[ ])memory\b
        |(?<=search_path[ ]=[ ]pg_catalog,[ ])memory\b)""",
    re.VERBOSE | re.DOTALL,
)
_IN_LITERAL = re.compile(r"""(?<![\w$."])memory(?=\.)|(?<=\bSCHEMA[ ])memory\b""")
_OF_NAMESPACE = re.compile(r"::regnamespace\b", re.IGNORECASE)
_IN_NAMESPACE = re.compile(r"to_regnamespace\(\s*$", re.IGNORECASE)
_FORMAT = re.compile(r"(?:\bformat\(|\bRAISE(?:[ ]+[A-Z]+)?)\s*$")


SCHEMA: ColumnElement[str] = literal_column(f"'{DEFAULT_SCHEMA}'", Text)  # its name, to compare with a catalogue's


def of_schema(name: str) -> ColumnElement[str]:
    """The name of something in the schema, for `to_regclass` and its like. It is in the statement, where it is translated."""
    return literal_column(f"'{DEFAULT_SCHEMA}.{name}'", Text)


def quoted(schema: str) -> str:
    """The name as a statement says it."""
    return DEFAULT_SCHEMA if schema == DEFAULT_SCHEMA else f'"{schema.replace(chr(34), chr(34) * 2)}"'


def channel(schema: str) -> str:
    """Where it is notified that something is due: a worker isn't woken by another schema."""
    return CHANNEL if schema == DEFAULT_SCHEMA else f"{CHANNEL}_{_digest(schema)}"


def _digest(schema: str) -> str:
    return hashlib.sha256(schema.encode()).hexdigest()[:16]


@lru_cache(maxsize=4096)
def in_schema(sql: str, schema: str) -> str:
    """The same SQL for a schema of that name; for the default one the same text.

    Names, the texts of functions, and literals that contain SQL or one of these names are translated. Comments, other
    literals and quoted names stay as they are.
    """
    return sql if schema == DEFAULT_SCHEMA else _TOKENS.sub(lambda found: _translated(found, schema), sql)


def _translated(found: re.Match[str], schema: str) -> str:
    if found["name"] is not None:
        return quoted(schema)
    if found["literal"] is not None:
        return _quoted_literal(found, schema)
    if found["tag"] is not None:
        return _body(found["body"], found["tag"], schema)
    return found[0]


def _quoted_literal(found: re.Match[str], schema: str) -> str:
    if "memory" not in found["literal"]:
        return found[0]
    is_format = _FORMAT.search(found.string, max(0, found.start() - 60), found.start()) is not None
    text = found["literal"].replace("''", "'")
    if text == DEFAULT_SCHEMA:
        text = quoted(schema) if _is_namespace(found) else schema
    elif text == CHANNEL:
        text = channel(schema)
    elif text == PRINCIPAL:
        text = f"{PRINCIPAL}_{_digest(schema)}"
    elif text not in _SETTINGS and not text.startswith(f"{PRINCIPAL}_"):
        name = quoted(schema).replace("%", "%%") if is_format else quoted(schema)
        text = _IN_LITERAL.sub(lambda _: name, text)
    return "'" + text.replace("'", "''") + "'"


def _is_namespace(found: re.Match[str]) -> bool:
    """Whether the literal is read as a name in SQL is, with its quotes; otherwise it is compared with the name itself."""
    before = _IN_NAMESPACE.search(found.string, max(0, found.start() - 60), found.start())
    return before is not None or _OF_NAMESPACE.match(found.string, found.end()) is not None


def _body(body: str, tag: str, schema: str) -> str:
    """With other quotes than those that the name may contain."""
    text = _TOKENS.sub(lambda found: _translated(found, schema), body)
    while text != body and tag in f"{text}$":
        tag = f"{tag[:-1]}_{'q' if tag == '$$' else ''}$"
    return f"{tag}{text}{tag}"


Listener = Callable[..., tuple[str, Any]]


@lru_cache(maxsize=256)
def translating(schema: str) -> Listener:
    """For SQLAlchemy's `before_cursor_execute`, with `retval`."""

    def translate(_connection: Any, _cursor: Any, statement: str, given: Any, *_: Any) -> tuple[str, Any]:
        return in_schema(statement, schema), given

    return translate


@lru_cache(maxsize=256)
def translating_ours(schema: str) -> Listener:
    """As `translating`, but only what our migrations send (`OURS`): the connection is that of a host's Alembic."""

    def translate(connection: Any, _cursor: Any, statement: str, given: Any, context: Any, *_: Any) -> tuple[str, Any]:
        if context is None or not context.execution_options.get(OURS):
            return statement, given
        with_places = connection.dialect.paramstyle in ("format", "pyformat")
        return (_between_places if with_places else in_schema)(statement, schema), given

    return translate


def _between_places(statement: str, schema: str) -> str:
    """For drivers to which `%` means a parameter, and `%%` one that is none: a name may contain it."""
    bare = statement.replace("%%", "\1").replace("%", "\0").replace("\1", "%")
    return in_schema(bare, schema).replace("%", "%%").replace("\0", "%")


def names_schema(target: Any, schema: str) -> bool:
    """Whether `name_schema` has been called for it."""
    return event.contains(target, "before_cursor_execute", translating(schema))


def name_schema(target: Any, schema: str) -> None:
    """What is sent by this engine or connection is sent for that schema. Costs nothing for the default one."""
    if schema != DEFAULT_SCHEMA:
        event.listen(target, "before_cursor_execute", translating(schema), retval=True)


def schema_of(session: AsyncSession) -> str:
    """The schema for which the session's statements are sent: of ours, or of the host's while a call works in it."""
    schema: str = session.info.get(TRANSLATED) or session.info.get(NAMED, DEFAULT_SCHEMA)
    return schema


@asynccontextmanager
async def named_within(session: AsyncSession, schema: str) -> AsyncIterator[None]:
    """What the host's session sends meanwhile is sent for that schema. Afterwards its connection is as it was."""
    if schema_of(session) == schema:
        yield
        return
    connection = (await session.connection()).sync_connection
    before, session.info[TRANSLATED] = session.info.get(TRANSLATED), schema
    event.listen(connection, "before_cursor_execute", translating(schema), retval=True)
    try:
        yield
    finally:
        event.remove(connection, "before_cursor_execute", translating(schema))
        if before is None:
            del session.info[TRANSLATED]
        else:
            session.info[TRANSLATED] = before
