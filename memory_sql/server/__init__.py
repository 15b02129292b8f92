"""The HTTP server (extra `server`): `memory-sql serve`, or in a host's own application.

app = create_app()                                          # uvicorn --factory memory_sql.server:create_app
host.include_router(router(memory, identity))               # the routes alone, with the host's own sign-in
"""

from memory_sql.domain.keys import Right
from memory_sql.server.app import create_app
from memory_sql.server.identity import Identify, Identity
from memory_sql.server.routing import router

__all__ = ["Identify", "Identity", "Right", "create_app", "router"]
