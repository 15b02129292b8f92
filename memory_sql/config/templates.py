"""Kinds of named scopes that come ready: their settings, and guidance for the models that write into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from memory_sql.config.kinds import PromptName
from memory_sql.config.scopes import ScopeSettings

TemplateName = Literal["profile", "identity"]
TEMPLATE_NAMES: tuple[TemplateName, ...] = get_args(TemplateName)
CHARACTERS = 8_000  # of what waits, after which it is summed up whatever the number


class Template(NamedTuple):
    """`name`: of the scope, unless another is given. `prompts`: guidance, which is added to the base prompts."""

    name: str
    settings: ScopeSettings
    prompts: Mapping[PromptName, str]


TEMPLATES: Mapping[TemplateName, Template] = {
    "profile": Template(
        "profile",
        ScopeSettings(consolidation_characters=CHARACTERS, consolidation_max_words=400, observation_max_items=4),
        {
            "extraction": (
                "Only how this person works and wants to be treated: habits, manner of speaking, what they approve and"
                " reject, how much they want explained. Only what shows more than once or is said outright, not what"
                " happened once, and no facts of their life, which belong to the main scope."
            ),
            "consolidation": (
                "A profile of behaviour, to be read before each answer. One sentence for each trait, at most fifty, the"
                " best supported first. What has been seen again is said once. Drop what was seen once, long ago."
            ),
        },
    ),
    "identity": Template(
        "identity",
        ScopeSettings(consolidation_characters=CHARACTERS, consolidation_max_words=500, observation_max_items=4),
        {
            "extraction": (
                "Only what the assistant has learnt about itself: what it is good and bad at, how it wants to act, which"
                " mistakes it won't repeat. Nothing about the people it talks with."
            ),
            "consolidation": (
                "Who the assistant is, as it has come to know itself, in one coherent account. Newer insights are worked"
                " into it; what they overtake is dropped, and nothing is listed by date."
            ),
        },
    ),
}
