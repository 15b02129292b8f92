"""The database: tables, one repository per aggregate, migrations. The only package that imports SQLAlchemy."""

from sqlalchemy.ext.asyncio import AsyncEngine as AsyncEngine

from memory_sql.db.engine import Database, Session
from memory_sql.db.waiting import Joinable

__all__ = ["AsyncEngine", "Database", "Joinable", "Session"]
