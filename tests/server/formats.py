"""Formats of our schema that JSON Schema doesn't know, for Schemathesis: `SCHEMATHESIS_HOOKS=tests.server.formats`."""

from __future__ import annotations

import base64
import json

import schemathesis
from hypothesis import strategies as st

PLAIN = st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='/?#%{}\\<>"')
ids = st.one_of(st.sampled_from(["mia", "jonas", "monday", "harbor"]), st.text(PLAIN, min_size=1, max_size=40))


def position(created_at: str, key: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([created_at, key]).encode()).decode().rstrip("=")


schemathesis.openapi.format("host-id", ids.filter(lambda text: text.strip(".") != ""))
schemathesis.openapi.format("position", st.just(position("2026-03-02T10:15:00+00:00", "o1-1")))
schemathesis.openapi.format("etag", st.integers(1, 9).map(lambda number: f'"{number}"'))
schemathesis.openapi.format("time-zone", st.sampled_from(["Europe/Oslo", "UTC"]))
schemathesis.openapi.format("moment", st.just("2026-03-02T10:15:00Z"))
