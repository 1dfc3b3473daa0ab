"""DBAC, supplement, Table 15: DBAC (a) and LIC (b) for race, by four pretrained encoders."""

from __future__ import annotations

from _dbac import pretrained_table
from _table import main

TABLE = pretrained_table("dbac_table15", "Table 15", attribute="skin")

if __name__ == "__main__":
    main(TABLE)
