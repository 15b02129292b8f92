"""Each system, used as its own documentation says for a conversation, with its own settings except where the model is."""

from __future__ import annotations

import os

from benchmarks.survival.systems import hindsight, langmem, mem0, ours

_ALL = (
    ours.KNOWN,
    mem0.KNOWN,
    langmem.STORE,
    langmem.MANAGER,
    langmem.EXECUTOR,
    hindsight.WAITING,
    hindsight.LATER,
)
KNOWN = {known.name: known for known in _ALL}

# None of them is to tell its makers that it was used.
os.environ |= {
    "MEM0_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false",
    "DO_NOT_TRACK": "1",
    "ANONYMIZED_TELEMETRY": "False",
}
