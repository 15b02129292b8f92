"""The mapped tables of schema `memory`, by aggregate; `memory_sql.models` exports those that a host may use."""

from memory_sql.db.models.agents import AgentRow, RetrievalRow
from memory_sql.db.models.base import SCHEMA, Base, columns_of
from memory_sql.db.models.conversations import ConversationRow, MessageRow
from memory_sql.db.models.dialects import DialectRow
from memory_sql.db.models.episodes import EpisodeRow, ObservationEpisodeRow
from memory_sql.db.models.imports import ForgottenRefRow, ImportedMessageRow, ImportedRow, ImportRejectRow, ImportRow
from memory_sql.db.models.keys import ApiKeyRow
from memory_sql.db.models.links import LinkRow
from memory_sql.db.models.observations import EvidenceRow, ObservationRow, ObservationStateRow
from memory_sql.db.models.people import DepartureRow, ForgottenIdRow, HoldRow, UserAliasRow
from memory_sql.db.models.prices import PriceRow
from memory_sql.db.models.propagation import JudgedRow, LineageRow
from memory_sql.db.models.rechecks import RecheckedRow
from memory_sql.db.models.runs import EventRow, RunRow
from memory_sql.db.models.scopes import ConsolidationRow, MemberRow, PromptRow, ScopeRow
from memory_sql.db.models.shards import AgentShardRow, MovedAgentRow, ShardRow
from memory_sql.db.models.uses import ObservationFeedbackRow, ObservationRetrievalRow
from memory_sql.db.models.vectors import ObservationVectorRow

__all__ = [
    "SCHEMA",
    "AgentRow",
    "AgentShardRow",
    "ApiKeyRow",
    "Base",
    "ConsolidationRow",
    "ConversationRow",
    "DepartureRow",
    "DialectRow",
    "EpisodeRow",
    "EventRow",
    "EvidenceRow",
    "ForgottenIdRow",
    "ForgottenRefRow",
    "HoldRow",
    "ImportRejectRow",
    "ImportRow",
    "ImportedMessageRow",
    "ImportedRow",
    "JudgedRow",
    "LineageRow",
    "LinkRow",
    "MemberRow",
    "MessageRow",
    "MovedAgentRow",
    "ObservationEpisodeRow",
    "ObservationFeedbackRow",
    "ObservationRetrievalRow",
    "ObservationRow",
    "ObservationStateRow",
    "ObservationVectorRow",
    "PriceRow",
    "PromptRow",
    "RecheckedRow",
    "RetrievalRow",
    "RunRow",
    "ScopeRow",
    "ShardRow",
    "UserAliasRow",
    "columns_of",
]
