"""The tables of schema `memory` as SQLAlchemy maps them, to be queried from a host's own code (docs/sqlalchemy.md).

    select(ObservationRow).join(ObservationRow.scope).options(selectinload(ObservationRow.evidence))

To read, with a session of the host's. Only `Memory` writes: what may be remembered, who sees it and what follows from a
change are decided there. Relationships are therefore view-only, and one that a query didn't load raises instead of
asking the database. The tables may change with a release; the values that `Memory` returns are `memory_sql.Observation`
and its like.
"""

from memory_sql.db.models import (
    AgentRow,
    ConsolidationRow,
    ConversationRow,
    DepartureRow,
    EventRow,
    EvidenceRow,
    ForgottenRefRow,
    HoldRow,
    ImportedMessageRow,
    ImportedRow,
    ImportRejectRow,
    ImportRow,
    JudgedRow,
    LineageRow,
    MemberRow,
    MessageRow,
    ObservationRetrievalRow,
    ObservationRow,
    ObservationStateRow,
    ObservationVectorRow,
    PriceRow,
    PromptRow,
    RetrievalRow,
    RunRow,
    ScopeRow,
    UserAliasRow,
)

__all__ = [
    "AgentRow",
    "ConsolidationRow",
    "ConversationRow",
    "DepartureRow",
    "EventRow",
    "EvidenceRow",
    "ForgottenRefRow",
    "HoldRow",
    "ImportRejectRow",
    "ImportRow",
    "ImportedMessageRow",
    "ImportedRow",
    "JudgedRow",
    "LineageRow",
    "MemberRow",
    "MessageRow",
    "ObservationRetrievalRow",
    "ObservationRow",
    "ObservationStateRow",
    "ObservationVectorRow",
    "PriceRow",
    "PromptRow",
    "RetrievalRow",
    "RunRow",
    "ScopeRow",
    "UserAliasRow",
]
