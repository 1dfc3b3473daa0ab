"""DBAC, Table 5: how much gender figures vary over encoders; follows from Tables 10 to 12."""

from __future__ import annotations

from _dbac import variation_table
from _table import main

SOURCES = ("dbac_table10", "dbac_table11", "dbac_table12")
TABLE = variation_table("dbac_table5", "Table 5", attribute="gender", sources=SOURCES)

if __name__ == "__main__":
    main(TABLE)
