"""DBAC, supplement, Table 14: LIC for race, by six encoders trained from scratch."""

from __future__ import annotations

from _dbac import scratch_table
from _table import main

TABLE = scratch_table("dbac_table14", "Table 14", metric="lic", attribute="skin")

if __name__ == "__main__":
    main(TABLE)
