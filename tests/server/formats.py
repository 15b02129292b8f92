"""Formats of our schema that JSON Schema doesn't know, for Schemathesis: `SCHEMATHESIS_HOOKS=tests.server.formats`."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import schemathesis
from hypothesis import strategies as st

from memory_sql.domain.positions import position

PLAIN = st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='/?#%{}\\<>"')
ids = st.one_of(st.sampled_from(["mia", "jonas", "monday", "harbor"]), st.text(PLAIN, min_size=1, max_size=40))


AT = datetime(2026, 3, 2, 10, 15, tzinfo=UTC)
schemathesis.openapi.format("host-id", ids.filter(lambda text: text.strip(".") != ""))
schemathesis.openapi.format("observation-position", st.just(position(AT, 1, 1)))
schemathesis.openapi.format("message-position", st.just(position(AT, "monday", 1)))
schemathesis.openapi.format("time-zone", st.sampled_from(["Europe/Oslo", "UTC"]))
schemathesis.openapi.format("moment", st.just("2026-03-02T10:15:00Z"))

NUMBERS = count()


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: schemathesis.Case[Any], _kwargs: dict[str, Any]) -> None:
    """Each call has an Idempotency-Key of its own: with another's it is refused, which a schema can't say."""
    lacks_header = getattr(case.meta and case.meta.phase.data, "scenario", None) == "missing_parameter"
    key = case.headers.get("Idempotency-Key") if case.headers and not lacks_header else None
    if key and len(key) < 200:
        case.headers["Idempotency-Key"] = f"{key}-{next(NUMBERS)}"
