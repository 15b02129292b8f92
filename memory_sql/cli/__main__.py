"""`python -m memory_sql.cli`."""

import sys

from memory_sql.cli import main

sys.exit(main())
