"""DBAC, supplement, Table 10: DBAC for gender, by six encoders trained from scratch."""

from __future__ import annotations

from _dbac import scratch_table
from _table import main

TABLE = scratch_table("dbac_table10", "Table 10", metric="dbac", attribute="gender")

if __name__ == "__main__":
    main(TABLE)
