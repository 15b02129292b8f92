"""The codes of what is unusual in real legacy data, and the reasons for which a document isn't imported.

`A1` to `A30` are the codes of the requirements; other anomalies have names. Documents are counted, unless `counts` says
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`counts`: the unit that is counted. `rule`: how it is handled."""

    what: str
    rule: str
    counts: str = "documents"


ANOMALIES: Mapping[str, Anomaly] = {
    "A1": Anomaly("a list is missing or null", "it is empty"),
    "A2": Anomaly("an older name of a field or collection", "read as the newer one"),
    "A3": Anomaly("no text, or white space alone", "a blob: a scope without text; a record: rejected as empty"),
    "A4": Anomaly("a text with VERSION or a word count", "both are taken off; the version stands at its sentences"),
    "A5": Anomaly("an id that isn't an ObjectId", "24 hexadecimal digits in lower case, else rejected as bad_id"),
    "A6": Anomaly("a time as text or in a wrapper", "read; without a zone it is UTC"),
    "A7": Anomaly("no time of creation", "the second that stands in the id"),
    "A8": Anomaly("updatedAt is null on a record", "nothing: records are written so in bulk"),
    "A9": Anomaly("a second blob of the same agent and user", "the newest is the text, others stand below a divider"),
    "A10": Anomaly("an id of a user that stands for another", "the canonical one"),
    "A11": Anomaly("a user who is an agent, deleted or missing", "agent: rejected or left out; else an inactive scope"),
    "A12": Anomaly("an agent that is deleted or missing", "its scopes are inactive, or it is skipped", "agents"),
    "A13": Anomaly("a directive of several users", "one row in the scope of each, with one reference"),
    "A14": Anomaly("a directive of nobody", "rejected as no_user, unless somebody's blob waits for it"),
    "A15": Anomaly("a list names no such record", "left out", "entries of lists"),
    "A16": Anomaly("younger than the blob, and it waits for none", "absorbed, or pending where that is asked for"),
    "A17": Anomaly("a fact or suggestion without a shard", "into the collective scope"),
    "A18": Anomaly("a shard that is inactive, or doesn't say", "inactive: archived, no text; unsaid: active"),
    "A19": Anomaly("a shard without a name, or with another's", "Unnamed shard; numbered by age"),
    "A20": Anomaly("a list of facts over its limit, or a fact that is in none", "kept; archived where in none"),
    "A21": Anomaly("a blob with a divider", "verbatim"),
    "A22": Anomaly("an empty blob that waits for nothing", "a scope without text"),
    "A23": Anomaly("a type in capitals, or unknown", "in lower case; unknown: rejected as bad_memory_type"),
    "A24": Anomaly("its session is missing or deleted", "the id stays as text"),
    "A25": Anomaly("a message of an older shape", "read; without content it is empty"),
    "A26": Anomaly("a memory_context that is missing, partial or points nowhere", "formation takes the whole window"),
    "A27": Anomaly("keys that nobody knows", "left out"),
    "A28": Anomaly("the same text again in its scope", "one row, the other is evidence"),
    "A29": Anomaly("characters that no text may hold", "each is U+FFFD"),
    "A30": Anomaly("a blob over its limit of words", "kept as it is; its sentences are marked over_limit"),
    "absorbed_without_text": Anomaly("said to be absorbed, but there is no text", "pending, or archived by option"),
    "bad_list_id": Anomaly("an entry of a list that isn't an ObjectId", "left out; the rest of its document is taken"),
    "bad_setting": Anomaly("a limit that can't be one", "the default of the legacy system"),
    "bad_time": Anomaly("a time that can't be one", "as if it weren't given"),
    "hidden_characters": Anomaly("characters that aren't seen and hide what is said", "taken out"),
    "masked": Anomaly("a secret", "masked"),
    "metadata_left_out": Anomaly("metadata that is too large, or no JSON", "left out; the memory is taken"),
    "no_agent": Anomaly("a memory that names no agent", "it goes to the agent that the import names"),
    "no_time": Anomaly("no time of creation", "the time of the import"),
    "re_embed": Anomaly("a vector of another model", "left out: to be embedded again"),
}

REASONS: Mapping[str, str] = {
    "agent_as_user": "its user is an agent",
    "agent_missing": "its agent is deleted or missing, and those are skipped",
    "bad_id": "an id isn't 24 hexadecimal digits",
    "bad_memory_type": "its type is none that is known",
    "bad_role": "its role is none that is known",
    "bad_type": "a field holds a value of the wrong type",
    "directory": "it says who a user is, or that a session exists; it holds no memory",
    "duplicate_text": "its scope has the same text already",
    "duplicate_scope": "another document of the same scope has its text",
    "empty": "it has no text",
    "episode": "episodes aren't taken over",
    "expired": "its last day has passed, and it isn't shown there any more",
    "forgotten": "it was forgotten here",
    "goes_on_here": "its conversation has gone on here",
    "here": "what waits or is set aside here says the same",
    "inactive_shard": "the shard is inactive: its text isn't told",
    "known": "it is here already",
    "nobody_yet": "nobody had written anything in its conversation",
    "no_session": "its session is deleted, missing or without an agent",
    "no_user": "it belongs to nobody",
    "same_document": "another file holds it as well",
    "secret": "it holds a secret, and those are refused",
    "too_long": "it is longer than may be stored here",
    "unreadable": "its bytes can't be read",
}
