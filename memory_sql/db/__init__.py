"""The database: tables, one repository per aggregate, migrations. The only package that imports SQLAlchemy."""

from memory_sql.db.engine import Database, Session

__all__ = ["Database", "Session"]
