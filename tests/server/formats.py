"""Formats of our schema that JSON Schema doesn't know, for Schemathesis: `SCHEMATHESIS_HOOKS=tests.server.formats`."""

from __future__ import annotations

from datetime import UTC, datetime

import schemathesis
from hypothesis import strategies as st

from memory_sql.domain.positions import position

PLAIN = st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='/?#%{}\\<>"')
ids = st.one_of(st.sampled_from(["mia", "jonas", "monday", "harbor"]), st.text(PLAIN, min_size=1, max_size=40))


AT = datetime(2026, 3, 2, 10, 15, tzinfo=UTC)
schemathesis.openapi.format("host-id", ids.filter(lambda text: text.strip(".") != ""))
schemathesis.openapi.format("observation-position", st.just(position(AT, 1, 1)))
schemathesis.openapi.format("message-position", st.just(position(AT, "monday", 1)))
schemathesis.openapi.format("etag", st.integers(1, 9).map(lambda number: f'"{number}"'))
schemathesis.openapi.format("time-zone", st.sampled_from(["Europe/Oslo", "UTC"]))
schemathesis.openapi.format("moment", st.just("2026-03-02T10:15:00Z"))
