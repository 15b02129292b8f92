"""Switching from another memory: its calls over this memory, both behind one backend, and their differences.

from memory_sql.backends import memory_service
"""

from memory_sql.backends.differences import ContextDifference
from memory_sql.backends.hosts import HostSession
from memory_sql.backends.legacy import LegacyMongoBackend
from memory_sql.backends.protocols import LegacyReader, MemoryBackend, StepwiseBackend
from memory_sql.backends.routing import RoutingBackend
from memory_sql.backends.service import MemoryService, memory_service
from memory_sql.backends.shadow import ShadowCounts
from memory_sql.backends.sql import SqlBackend

__all__ = [
    "ContextDifference",
    "HostSession",
    "LegacyMongoBackend",
    "LegacyReader",
    "MemoryBackend",
    "MemoryService",
    "RoutingBackend",
    "ShadowCounts",
    "SqlBackend",
    "StepwiseBackend",
    "memory_service",
]
