"""How a test's model answers decoys: unlike a real judge, it knows the answers."""

from __future__ import annotations

from typing import Any

from memory_sql.propagation import decoys

_GOES = {one.wordings[0]: one.goes for known in decoys.table().values() for one in known}


def is_decoy(text: str) -> bool:
    return text in _GOES


def verdict(text: str) -> dict[str, Any]:
    """Yes to every claim; the right answer to a decoy."""
    goes = _GOES.get(text, True)
    return {"personal": not goes, "general": goes, "valuable": goes}
