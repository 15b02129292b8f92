"""Memory for agents that are made with a framework. Each module but the first two and the last needs the extra of its name.

turns             what all of them do before and after a turn, within a time, and without failing it
failures          what the log says of that
langchain         middleware of LangChain and LangGraph
openai_agents     sessions of the OpenAI Agents SDK
pydantic_ai       a capability of Pydantic AI
agent_framework   a context provider of Microsoft's Agent Framework
google_adk        a plugin and a memory service of Google's ADK
mem0              the calls of mem0, which needs no extra
"""
