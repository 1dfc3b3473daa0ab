"""DBAC, supplement, Table 11: LIC for gender, by six encoders trained from scratch."""

from __future__ import annotations

from _dbac import scratch_table
from _table import main

TABLE = scratch_table("dbac_table11", "Table 11", metric="lic", attribute="gender")

if __name__ == "__main__":
    main(TABLE)
