"""Builds scopes with their texts and settings from blobs and shards (C9, C10, C26, A4, A9, A18–A22). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory_sql.domain.ids import ID_MAX_CHARACTERS, ScopeKind
from memory_sql.importers.drafts import PromptDraft, ScopeDraft, TextPart
from memory_sql.importers.mongo.documents import Blob, Shard
from memory_sql.importers.mongo.reading import MOST_FACTS, MOST_SUGGESTIONS
from memory_sql.importers.mongo.texts import DIVIDER
from memory_sql.languages.text import clean, one_line, shortened
from memory_sql.privacy.classify import mask

MOST_IN_BUFFER, MOST_TEXT_WORDS = 10_000, 100_000  # upper limits of a scope's settings
LATER = "memory2_consolidated"
_USER: dict[str, Any] = {
    "consolidation_threshold": 5,
    "consolidation_max_words": 400,
    "observation_max_words": 25,
}  # R011–R013
_SHARD: dict[str, Any] = {"observation_max_words": 35, "lanes": "both", "buffer_max_words": 30}
_EPISODES: dict[str, Any] = {"lanes": "buffer", "consolidate": False, "buffer_max": 8, "buffer_max_words": 50}
_LATER: Mapping[str, Mapping[str, Any]] = {
    "individual": {"consolidation_threshold": 4, "observation_max_words": 35},
    "collective": {"consolidation_threshold": 10, "observation_max_words": 35},
    "conversation": {
        "consolidation_threshold": 6,
        "observation_max_words": 35,
        "lanes": "both",
        "buffer_max": 8,
        "buffer_max_words": 50,
    },
}
_OLDER: Mapping[str, Mapping[str, Any]] = {"individual": _USER, "collective": _SHARD, "conversation": _EPISODES}


def displayed(name: str | None) -> str | None:
    """A display name as it is stored."""
    text = one_line(mask(clean(name or "")[0]).text)
    return shortened(text, ID_MAX_CHARACTERS) or None


def from_blobs(agent_id: str, kind: ScopeKind, owner_id: str | None, blobs: Sequence[Blob]) -> ScopeDraft:
    """`blobs` are newest first. The newest is the text; differing texts of older ones follow below a divider (A9).

    A text of the later system was made from those of the earlier system, which are then left out.
    """
    parts = _parts(blobs)
    return _draft(
        agent_id,
        kind,
        owner_id,
        parts=parts,
        text=f"\n\n{DIVIDER}\n\n".join(part.content for part in parts) or None,
        settings=_settings(kind, blobs),
        refs=[blob.ref for blob in blobs],
        created=[blob.created_at for blob in blobs],
    )


def _parts(blobs: Sequence[Blob]) -> tuple[TextPart, ...]:
    later = [blob for blob in blobs if blob.ref.startswith(LATER) and blob.text is not None]
    parts: dict[str, TextPart] = {}
    for blob in later or blobs:
        if blob.text is not None:
            t = blob.text
            part = TextPart(blob.ref, t.content, blob.moment, t.source_hash, None, t.version, t.over_limit)
            parts.setdefault(t.content, part)
    return tuple(parts.values())


def _settings(kind: ScopeKind, blobs: Sequence[Blob]) -> dict[str, Any]:
    later = next((blob for blob in blobs if blob.ref.startswith(LATER)), None)
    if later is None:
        return dict(_OLDER[kind])
    return {**_LATER[kind], "consolidation_max_words": later.limits.words}


def collective(agent_id: str, blobs: Sequence[Blob], shards: Sequence[Shard], names: Mapping[str, str]) -> ScopeDraft:
    """The texts of active shards under their names, oldest first, or the text of the later system (C9)."""
    draft = from_blobs(agent_id, "collective", None, blobs)
    if not shards:
        return draft
    active = [shard for shard in shards if shard.is_active]
    parts = draft.parts or tuple(_shard_part(s, names[s.key]) for s in active if s.text is not None)
    text = draft.text or "\n\n".join(f"## {part.heading}\n\n{part.content}" for part in parts) or None
    prompts = [(names[s.key], body) for s in active if (body := _prompt(s))]
    said = prompts[0][1] if len(prompts) == 1 else "\n\n".join(f"## {name}\n\n{body}" for name, body in prompts)
    return replace(
        draft,
        parts=parts,
        text=text,
        written_at=max((part.written_at for part in parts), default=None),
        created_at=min([shard.created_at for shard in shards] + ([draft.created_at] if draft.created_at else [])),
        settings=_SHARD | _limits(active or shards) | (dict(draft.settings) if blobs else {}),
        prompts=_guidance(said),
        legacy_refs=(*draft.legacy_refs, *(shard.ref for shard in active)),
    )


def named(agent_id: str, name: str, shard: Shard) -> ScopeDraft:
    """A shard as a scope of its own, beside the collective scope (C10)."""
    parts = () if shard.text is None else (replace(_shard_part(shard, name), heading=None),)
    return _draft(
        agent_id,
        "collective",
        None,
        name=name,
        parts=parts,
        text=None if shard.text is None else shard.text.content,
        settings=_SHARD | _limits([shard]),
        prompts=_guidance(_prompt(shard)),
        refs=[shard.ref],
        created=[shard.created_at],
        is_active=shard.is_active,
    )


def _limits(shards: Sequence[Shard]) -> dict[str, Any]:
    """Adds up the limits of several shards. The threshold is the highest of theirs (C26)."""
    facts = sum(MOST_FACTS if s.limits.facts is None else s.limits.facts for s in shards)
    return {
        "consolidation_threshold": max(s.limits.before_consolidation or MOST_SUGGESTIONS for s in shards),
        "consolidation_max_words": min(sum(s.limits.words for s in shards), MOST_TEXT_WORDS),
        "buffer_max": min(facts, MOST_IN_BUFFER),
    }


def limited_buffer(draft: ScopeDraft, told: int | None) -> ScopeDraft:
    """Gives the scope a buffer if it has rows for one, large enough for all rows that were shown (A20)."""
    if told is None or draft.kind == "conversation":
        return draft
    most = max(told, draft.settings.get("buffer_max", MOST_FACTS))
    return replace(draft, settings={**draft.settings, "lanes": "both", "buffer_max": min(most, MOST_IN_BUFFER)})


def _shard_part(shard: Shard, name: str) -> TextPart:
    if shard.text is None:
        raise AssertionError("a shard without text is no part of one")
    t = shard.text
    return TextPart(shard.ref, t.content, shard.moment, t.source_hash, name, t.version, t.over_limit)


def _prompt(shard: Shard) -> str:
    return mask(clean(shard.prompt or "")[0]).text.strip()


def _guidance(said: str) -> tuple[PromptDraft, ...]:
    """A shard's prompt was guidance beside the instructions in the old system too."""
    return (PromptDraft("extraction", "guidance", said),) if said else ()


def _draft(
    agent_id: str,
    kind: ScopeKind,
    owner_id: str | None,
    *,
    parts: tuple[TextPart, ...],
    text: str | None,
    settings: Mapping[str, Any],
    refs: Sequence[str],
    created: Sequence[datetime],
    name: str = "",
    prompts: tuple[PromptDraft, ...] = (),
    is_active: bool = True,
) -> ScopeDraft:
    return ScopeDraft(
        agent_id=agent_id,
        kind=kind,
        owner_id=owner_id,
        name=name,
        display_name=None,
        is_active=is_active,
        text=text,
        parts=parts,
        written_at=max((part.written_at for part in parts), default=None),
        created_at=min(created, default=None),
        settings=settings,
        prompts=prompts,
        legacy_refs=tuple(refs),
    )
