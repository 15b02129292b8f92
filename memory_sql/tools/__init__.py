"""Memory as tools that a model calls: recall, remember, correct, forget, sources.

    tools = MemoryTools(memory, agent_id="ada", user_id="mia")
    answer = await tools.call("recall", {"query": "tea"})

`tools.openai()` and `tools.anthropic()` declare them to a model. Whose memory it is, the host says once: no argument can name
another user. The MCP server and the integrations offer the same five.
"""

from memory_sql.tools.actions import Decision, Eligibility, decide
from memory_sql.tools.answers import Answer
from memory_sql.tools.bound import Confirm, MemoryTools, Policy
from memory_sql.tools.declared import TOOLS, Tool

__all__ = ["TOOLS", "Answer", "Confirm", "Decision", "Eligibility", "MemoryTools", "Policy", "Tool", "decide"]
