"""The tools of memory for programs that speak MCP: over stdio, or mounted in a web application. Needs the extra `mcp`.

server      the protocol: tools, resources, instructions, for whoever a request is from
stdio       one person on their own machine: `memory-sql mcp --agent ada --user mia`
http        many at once: routes for a Starlette application, which says who each request is from
"""

from memory_sql.mcp.http import Identify, Mounted, Person, mounted
from memory_sql.mcp.server import Caller, server_for
from memory_sql.mcp.stdio import serve, server

__all__ = ["Caller", "Identify", "Mounted", "Person", "mounted", "serve", "server", "server_for"]
