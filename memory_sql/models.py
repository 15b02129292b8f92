"""The tables of schema `memory` as SQLAlchemy models, for queries in a host's own code (docs/sqlalchemy.md).

    select(ObservationRow).join(ObservationRow.scope).options(selectinload(ObservationRow.evidence))

They are for reading, with a session of the host's. Only `Memory` writes, because it decides what may be remembered, who
sees it and what follows from a change. Relationships are therefore view-only, and a relationship that a query didn't load
raises an error instead of querying the database. The tables may change between releases. `Memory` returns other types:
`memory_sql.Observation` and so on.
"""

from memory_sql.db.models import (
    AgentRow,
    ApiKeyRow,
    ConsolidationRow,
    ConversationRow,
    DepartureRow,
    DialectRow,
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
    UserAliasRow,
)

__all__ = [
    "AgentRow",
    "ApiKeyRow",
    "ConsolidationRow",
    "ConversationRow",
    "DepartureRow",
    "DialectRow",
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
    "UserAliasRow",
]
