"""LIC, supplement, Table 1: racial bias by three judges."""

from __future__ import annotations

from _lic import lic_table
from _table import main

TABLE = lic_table(
    "lic_supplement_table1",
    "supplement, Table 1",
    "racial bias by three judges",
    judges=("lstm", "bert-ft", "bert-pre"),
    attribute="skin",
)

if __name__ == "__main__":
    main(TABLE)
