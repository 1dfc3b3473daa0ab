"""DBAC, supplement, Table 12: DBAC (a) and LIC (b) for gender, by four pretrained encoders."""

from __future__ import annotations

from _dbac import pretrained_table
from _table import main

TABLE = pretrained_table("dbac_table12", "Table 12", attribute="gender")

if __name__ == "__main__":
    main(TABLE)
