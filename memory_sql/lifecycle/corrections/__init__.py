"""Correcting what is remembered: replaced, confirmed, disputed, marked private, quarantined, archived.

Every function works in the caller's transaction and locks the scopes that it changes. It writes an event that says who
made the change and why, and the next context shows the change. An observation's text is never edited.

A scope's text that holds what was corrected is marked for rebuilding, below the threshold too. Until it has been rebuilt
the context shows the correction beside it; where something has to leave at once, it shows the version before.

    request     who asks; the observation, found and locked
    replacing   update, supersede, reinstate, replace_fact; change, of statuses by what quarantines or archives
    vouching    verify
    marking     mark, raise_sensitivity
    retracting  retract_few
    resolving   resolve
    quarantine  quarantine, release
    archiving   archive, archive_unsupported, leave_what_is_strange
    texts       rewinding and rebuilding the scopes' texts

What ends in `_under` works under locks that its caller has.
"""

from memory_sql.lifecycle.corrections.archiving import Archived, archive, archive_unsupported, leave_what_is_strange
from memory_sql.lifecycle.corrections.marking import mark, raise_sensitivity
from memory_sql.lifecycle.corrections.quarantine import quarantine, quarantine_under, release, release_under
from memory_sql.lifecycle.corrections.replacing import (
    reinstate,
    replace_fact,
    supersede,
    supersede_under,
    update,
    update_alone,
)
from memory_sql.lifecycle.corrections.request import Asked
from memory_sql.lifecycle.corrections.resolving import resolve
from memory_sql.lifecycle.corrections.retracting import retract_few
from memory_sql.lifecycle.corrections.vouching import verify

__all__ = [
    "Archived",
    "Asked",
    "archive",
    "archive_unsupported",
    "leave_what_is_strange",
    "mark",
    "quarantine",
    "quarantine_under",
    "raise_sensitivity",
    "reinstate",
    "release",
    "release_under",
    "replace_fact",
    "resolve",
    "retract_few",
    "supersede",
    "supersede_under",
    "update",
    "update_alone",
    "verify",
]
