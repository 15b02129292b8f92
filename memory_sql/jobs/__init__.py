"""Background work: its kinds are values of one protocol (`job`), and one engine runs any of them."""

from memory_sql.jobs.engine import DueWork
from memory_sql.jobs.work import DUE_KINDS, DueKind, Jobs

__all__ = ["DUE_KINDS", "DueKind", "DueWork", "Jobs"]
