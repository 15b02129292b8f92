"""Switching from another memory: the old names over this memory.

    from memory_sql.backends import memory_service
"""

from memory_sql.backends.hosts import HostSession
from memory_sql.backends.protocols import LegacyReader, MemoryBackend, StepwiseBackend
from memory_sql.backends.service import MemoryService, memory_service
from memory_sql.backends.sql import SqlBackend

__all__ = [
    "HostSession",
    "LegacyReader",
    "MemoryBackend",
    "MemoryService",
    "SqlBackend",
    "StepwiseBackend",
    "memory_service",
]
