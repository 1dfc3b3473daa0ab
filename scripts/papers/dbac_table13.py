"""DBAC, supplement, Table 13: DBAC for race, by six encoders trained from scratch."""

from __future__ import annotations

from _dbac import scratch_table
from _table import main

TABLE = scratch_table("dbac_table13", "Table 13", metric="dbac", attribute="skin")

if __name__ == "__main__":
    main(TABLE)
