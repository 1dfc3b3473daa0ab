"""DBAC, Table 6: how much race figures vary over encoders; follows from Tables 13 to 15."""

from __future__ import annotations

from _dbac import variation_table
from _table import main

SOURCES = ("dbac_table13", "dbac_table14", "dbac_table15")
TABLE = variation_table("dbac_table6", "Table 6", attribute="skin", sources=SOURCES)

if __name__ == "__main__":
    main(TABLE)
