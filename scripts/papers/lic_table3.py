"""LIC, Table 3: racial bias, by the LSTM. No word is hidden."""

from __future__ import annotations

from _lic import lic_table
from _table import main

TABLE = lic_table("lic_table3", "Table 3", "racial bias by the LSTM", judges=("lstm",), attribute="skin", named=False)

if __name__ == "__main__":
    main(TABLE)
