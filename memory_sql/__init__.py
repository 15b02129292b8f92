"""Long-term memory for AI agents, transactional, in your own Postgres.

    async with Memory("postgresql://…") as memory:
        await memory.add(messages, agent_id="ada", user_id="mia", conversation_id="42", wait=True)
        prompt = str(await memory.context(agent_id="ada", user_id="mia", message=question))

Names are imported on their first use, so that reading the version doesn't import a database driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_sql.later import imported

if TYPE_CHECKING:
    from memory_sql.backends.differences import ContextDifference
    from memory_sql.backends.hosts import HostSession
    from memory_sql.backends.legacy import LegacyMongoBackend
    from memory_sql.backends.protocols import LegacyReader, MemoryBackend, StepwiseBackend
    from memory_sql.backends.routing import RoutingBackend
    from memory_sql.backends.service import MemoryService
    from memory_sql.backends.shadow import ShadowCounts
    from memory_sql.backends.sql import SqlBackend
    from memory_sql.config import Assembly, ContextFormat, ContextKind, Engine, Secrets, Settings
    from memory_sql.config.kinds import ObservationKind
    from memory_sql.config.own import AgentSettings
    from memory_sql.config.scopes import ScopeSettings
    from memory_sql.db.waiting import BlockingTransaction
    from memory_sql.domain.adding import AddResult, FormationOutcome, RefusedMessage
    from memory_sql.domain.entities import Entity, EntitySummary, NamedIn, Topic
    from memory_sql.domain.episodes import Episode, SealReason
    from memory_sql.domain.exports import (
        ExportedAlias,
        ExportedConversation,
        ExportedDerivation,
        ExportedEpisode,
        ExportedEvent,
        ExportedEvidence,
        ExportedFeedback,
        ExportedHold,
        ExportedLink,
        ExportedMembership,
        ExportedMessage,
        ExportedObservation,
        ExportedPrompt,
        ExportedRun,
        ExportedScope,
        ExportedVersion,
        ExportHeader,
        ExportLine,
    )
    from memory_sql.domain.groups import Departure, Group, Member, MemberSource
    from memory_sql.domain.guidelines import ActionOutcome, LearnedGuidelines
    from memory_sql.domain.ids import Id, OwnedKind, ScopeKind
    from memory_sql.domain.keys import Key, NewKey, Right
    from memory_sql.domain.layer import ScopeRef
    from memory_sql.domain.message_shapes import MessageLike
    from memory_sql.domain.messages import Message, RetainedMessage, Role
    from memory_sql.domain.observations import (
        Lifecycle,
        Marked,
        Observation,
        Policy,
        Resolution,
        SetAside,
        Source,
        SourceKind,
        Stage,
        Tier,
        Verification,
    )
    from memory_sql.domain.people import Alias, Hold, HoldKind, Merged, PlacedHold, Renamed, RenameKind, UserSummary
    from memory_sql.domain.prices import Price
    from memory_sql.domain.prompts import ScopePrompt
    from memory_sql.domain.reading import (
        Context,
        ContextLine,
        ContextPart,
        Decision,
        Digest,
        Explanation,
        Followed,
        Hit,
        LinkKind,
        MessageHit,
        RetrievalStats,
        SearchResult,
    )
    from memory_sql.domain.rechecks import Rechecked, RecheckResult
    from memory_sql.domain.results import (
        AgentMove,
        AgentSummary,
        Backlog,
        ConsolidateResult,
        DailyCost,
        DeadRun,
        EmbedResult,
        FailedRun,
        FormResult,
        ImportCheck,
        ImportReport,
        ImportRun,
        JournalStatus,
        Judged,
        JudgeRate,
        Kept,
        KeptReason,
        Late,
        LifecycleWeek,
        MaintainResult,
        ModelCheck,
        Moved,
        Naming,
        ObserveResult,
        PersonReceipt,
        Physical,
        Progress,
        PropagateResult,
        PropagationOutcome,
        Receipt,
        Review,
        RolledBack,
        RunDueResult,
        Stats,
        Trimmed,
        Violation,
        Waiting,
    )
    from memory_sql.domain.scopes import (
        Consolidation,
        Contradiction,
        Diff,
        Repetition,
        Scope,
        ScopeDetails,
        ScopeSetting,
        Sentence,
    )
    from memory_sql.domain.selection import Selection
    from memory_sql.domain.usage import Usage
    from memory_sql.errors import (
        AnswerError,
        BudgetError,
        BusyError,
        ConfigurationError,
        ConflictError,
        DatabaseError,
        DividedAgentError,
        EmbeddedError,
        ForkedError,
        GuardError,
        HeldError,
        InputError,
        InvalidIdError,
        InvalidMessageError,
        JudgeError,
        LanguageModelError,
        LockTimeoutError,
        MemorySQLError,
        MovedAgentError,
        NotFoundError,
        PoolFullError,
        PromptTooLongError,
        ReadOnlyError,
        RefusedError,
        RestoredError,
        SchemaError,
        ShardError,
        SourceError,
        StaleError,
        TooLargeError,
        TooManyError,
        TruncatedError,
        UnavailableError,
        VersionError,
    )
    from memory_sql.importers.mongo.options import ImportOptions
    from memory_sql.jobs import DueKind, DueWork
    from memory_sql.llm import Answer, LanguageModel, Request
    from memory_sql.llm.embeddings import EmbeddingModel
    from memory_sql.memory import Memory
    from memory_sql.privacy import Sensitivity
    from memory_sql.resources.admin import Admin
    from memory_sql.resources.conversations import Conversations
    from memory_sql.resources.entities import Entities
    from memory_sql.resources.episodes import Episodes
    from memory_sql.resources.groups import Groups
    from memory_sql.resources.holds import Holds
    from memory_sql.resources.imports import Imports
    from memory_sql.resources.keys import Keys
    from memory_sql.resources.models import Models
    from memory_sql.resources.observations import Observations
    from memory_sql.resources.people import People
    from memory_sql.resources.prompts import Prompts
    from memory_sql.resources.scopes import Scopes
    from memory_sql.resources.topics import Topics
    from memory_sql.resources.work import Work
    from memory_sql.worker import Health, Worked, Worker

__version__ = "0.2.0.dev0"

__all__ = [
    "ActionOutcome",
    "AddResult",
    "Admin",
    "AgentMove",
    "AgentSettings",
    "AgentSummary",
    "Alias",
    "Answer",
    "AnswerError",
    "Assembly",
    "Backlog",
    "BlockingTransaction",
    "BudgetError",
    "BusyError",
    "ConfigurationError",
    "ConflictError",
    "ConsolidateResult",
    "Consolidation",
    "Context",
    "ContextDifference",
    "ContextFormat",
    "ContextKind",
    "ContextLine",
    "ContextPart",
    "Contradiction",
    "Conversations",
    "DailyCost",
    "DatabaseError",
    "DeadRun",
    "Decision",
    "Departure",
    "Diff",
    "Digest",
    "DividedAgentError",
    "DueKind",
    "DueWork",
    "EmbedResult",
    "EmbeddedError",
    "EmbeddingModel",
    "Engine",
    "Entities",
    "Entity",
    "EntitySummary",
    "Episode",
    "Episodes",
    "Explanation",
    "ExportHeader",
    "ExportLine",
    "ExportedAlias",
    "ExportedConversation",
    "ExportedDerivation",
    "ExportedEpisode",
    "ExportedEvent",
    "ExportedEvidence",
    "ExportedFeedback",
    "ExportedHold",
    "ExportedLink",
    "ExportedMembership",
    "ExportedMessage",
    "ExportedObservation",
    "ExportedPrompt",
    "ExportedRun",
    "ExportedScope",
    "ExportedVersion",
    "FailedRun",
    "Followed",
    "ForkedError",
    "FormResult",
    "FormationOutcome",
    "Group",
    "Groups",
    "GuardError",
    "Health",
    "HeldError",
    "Hit",
    "Hold",
    "HoldKind",
    "Holds",
    "HostSession",
    "Id",
    "ImportCheck",
    "ImportOptions",
    "ImportReport",
    "ImportRun",
    "Imports",
    "InputError",
    "InvalidIdError",
    "InvalidMessageError",
    "JournalStatus",
    "JudgeError",
    "JudgeRate",
    "Judged",
    "Kept",
    "KeptReason",
    "Key",
    "Keys",
    "LanguageModel",
    "LanguageModelError",
    "Late",
    "LearnedGuidelines",
    "LegacyMongoBackend",
    "LegacyReader",
    "Lifecycle",
    "LifecycleWeek",
    "LinkKind",
    "LockTimeoutError",
    "MaintainResult",
    "Marked",
    "Member",
    "MemberSource",
    "Memory",
    "MemoryBackend",
    "MemorySQLError",
    "MemoryService",
    "Merged",
    "Message",
    "MessageHit",
    "MessageLike",
    "ModelCheck",
    "Models",
    "Moved",
    "MovedAgentError",
    "NamedIn",
    "Naming",
    "NewKey",
    "NotFoundError",
    "Observation",
    "ObservationKind",
    "Observations",
    "ObserveResult",
    "OwnedKind",
    "People",
    "PersonReceipt",
    "Physical",
    "PlacedHold",
    "Policy",
    "PoolFullError",
    "Price",
    "Progress",
    "PromptTooLongError",
    "Prompts",
    "PropagateResult",
    "PropagationOutcome",
    "ReadOnlyError",
    "Receipt",
    "RecheckResult",
    "Rechecked",
    "RefusedError",
    "RefusedMessage",
    "RenameKind",
    "Renamed",
    "Repetition",
    "Request",
    "Resolution",
    "RestoredError",
    "RetainedMessage",
    "RetrievalStats",
    "Review",
    "Right",
    "Role",
    "RolledBack",
    "RoutingBackend",
    "RunDueResult",
    "SchemaError",
    "Scope",
    "ScopeDetails",
    "ScopeKind",
    "ScopePrompt",
    "ScopeRef",
    "ScopeSetting",
    "ScopeSettings",
    "Scopes",
    "SealReason",
    "SearchResult",
    "Secrets",
    "Selection",
    "Sensitivity",
    "Sentence",
    "SetAside",
    "Settings",
    "ShadowCounts",
    "ShardError",
    "Source",
    "SourceError",
    "SourceKind",
    "SqlBackend",
    "Stage",
    "StaleError",
    "Stats",
    "StepwiseBackend",
    "Tier",
    "TooLargeError",
    "TooManyError",
    "Topic",
    "Topics",
    "Trimmed",
    "TruncatedError",
    "UnavailableError",
    "Usage",
    "UserSummary",
    "Verification",
    "VersionError",
    "Violation",
    "Waiting",
    "Work",
    "Worked",
    "Worker",
    "__version__",
]

_HOME = {
    "backends.differences": "ContextDifference",
    "backends.hosts": "HostSession",
    "backends.legacy": "LegacyMongoBackend",
    "backends.protocols": "LegacyReader MemoryBackend StepwiseBackend",
    "backends.routing": "RoutingBackend",
    "backends.service": "MemoryService",
    "backends.shadow": "ShadowCounts",
    "backends.sql": "SqlBackend",
    "config": "Assembly ContextFormat ContextKind Engine Secrets Settings",
    "config.kinds": "ObservationKind",
    "config.own": "AgentSettings",
    "config.scopes": "ScopeSettings",
    "db.waiting": "BlockingTransaction",
    "domain.adding": "AddResult FormationOutcome RefusedMessage",
    "domain.entities": "Entity EntitySummary NamedIn Topic",
    "domain.episodes": "Episode SealReason",
    "domain.exports": (
        "ExportHeader ExportLine ExportedAlias ExportedDerivation ExportedEpisode ExportedEvent ExportedEvidence "
        "ExportedFeedback ExportedHold ExportedLink ExportedMembership ExportedMessage ExportedObservation "
        "ExportedPrompt ExportedRun ExportedScope ExportedConversation ExportedVersion"
    ),
    "domain.groups": "Departure Group Member MemberSource",
    "domain.ids": "Id OwnedKind ScopeKind",
    "domain.keys": "Key NewKey Right",
    "domain.layer": "ScopeRef",
    "domain.message_shapes": "MessageLike",
    "domain.messages": "Message RetainedMessage Role",
    "domain.observations": "Lifecycle Marked Observation Policy Resolution SetAside Source SourceKind Tier Verification",
    "domain.guidelines": "ActionOutcome LearnedGuidelines",
    "domain.people": "Alias Hold HoldKind Merged PlacedHold RenameKind Renamed UserSummary",
    "domain.prices": "Price",
    "domain.prompts": "ScopePrompt",
    "domain.reading": (
        "Context ContextLine ContextPart Decision Digest Explanation Followed Hit LinkKind MessageHit RetrievalStats "
        "SearchResult"
    ),
    "domain.rechecks": "RecheckResult Rechecked",
    "domain.results": (
        "AgentMove AgentSummary Backlog ConsolidateResult DailyCost DeadRun EmbedResult FailedRun FormResult "
        "JournalStatus JudgeRate Judged Kept KeptReason LifecycleWeek MaintainResult ModelCheck Moved Naming "
        "PersonReceipt Physical Progress PropagateResult PropagationOutcome Receipt Review RunDueResult Stats Trimmed "
        "Violation Waiting Late ImportCheck ImportReport ImportRun RolledBack ObserveResult Stage"
    ),
    "domain.scopes": "Consolidation Contradiction Diff Repetition Scope ScopeDetails ScopeSetting Sentence",
    "domain.selection": "Selection",
    "domain.usage": "Usage",
    "errors": (
        "AnswerError BudgetError BusyError ConfigurationError ConflictError DatabaseError DividedAgentError "
        "EmbeddedError ForkedError GuardError HeldError InputError InvalidIdError InvalidMessageError JudgeError "
        "LanguageModelError LockTimeoutError MemorySQLError MovedAgentError NotFoundError PoolFullError "
        "PromptTooLongError ReadOnlyError RefusedError RestoredError SchemaError ShardError SourceError StaleError "
        "TooLargeError TooManyError TruncatedError UnavailableError VersionError"
    ),
    "jobs": "DueKind DueWork",
    "llm": "Answer LanguageModel Request",
    "llm.embeddings": "EmbeddingModel",
    "memory": "Memory",
    "privacy": "Sensitivity",
    "resources.admin": "Admin",
    "resources.conversations": "Conversations",
    "resources.entities": "Entities",
    "resources.episodes": "Episodes",
    "resources.groups": "Groups",
    "resources.holds": "Holds",
    "resources.keys": "Keys",
    "resources.models": "Models",
    "importers.mongo.options": "ImportOptions",
    "resources.imports": "Imports",
    "resources.observations": "Observations",
    "resources.people": "People",
    "resources.prompts": "Prompts",
    "resources.scopes": "Scopes",
    "resources.topics": "Topics",
    "resources.work": "Work",
    "worker": "Health Worked Worker",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(imported(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
