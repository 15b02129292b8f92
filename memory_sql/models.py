"""The tables of schema `memory` as SQLAlchemy models, for queries in a host's own code (docs/sqlalchemy.md).

    select(ObservationRow).join(ObservationRow.scope).options(selectinload(ObservationRow.evidence))

They are for reading, with a session of the host's. Only `Memory` writes, because it decides what may be remembered, who
sees it and what follows from a change. Relationships are therefore view-only, and a relationship that a query didn't load
raises an error instead of querying the database. The tables may change between releases. `Memory` returns other types:
`memory_sql.Observation` and so on.
"""

import sys

from memory_sql.db.models import (
    AgentRow,
    AgentShardRow,
    ApiKeyRow,
    ConsolidationRow,
    ConversationRow,
    DepartureRow,
    DialectRow,
    EpisodeRow,
    EventRow,
    EvidenceRow,
    ForgottenIdRow,
    ForgottenRefRow,
    HoldRow,
    ImportedMessageRow,
    ImportedRow,
    ImportRejectRow,
    ImportRow,
    JudgedRow,
    LineageRow,
    LinkRow,
    MemberRow,
    MessageRow,
    MovedAgentRow,
    ObservationEpisodeRow,
    ObservationFeedbackRow,
    ObservationRetrievalRow,
    ObservationRow,
    ObservationStateRow,
    ObservationVectorRow,
    PriceRow,
    PromptRow,
    RecheckedRow,
    RetrievalRow,
    RunRow,
    ScopeRow,
    ShardRow,
    UserAliasRow,
)

__all__ = [
    "AgentRow",
    "AgentShardRow",
    "ApiKeyRow",
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
]


def _name_in_annotations() -> None:
    """Puts every row into the module of each, for `typing.get_type_hints`: these modules name one another in circles."""
    rows = {name: globals()[name] for name in __all__}
    for row in rows.values():
        vars(sys.modules[row.__module__]).update(rows)


_name_in_annotations()
