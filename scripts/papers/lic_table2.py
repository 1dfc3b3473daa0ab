"""LIC, Table 2: gender bias by three judges, LSTM, BERT fine-tuned and BERT as it is."""

from __future__ import annotations

from _lic import lic_table
from _table import main

TABLE = lic_table(
    "lic_table2",
    "Table 2",
    "gender bias by three judges",
    judges=("lstm", "bert-ft", "bert-pre"),
    attribute="gender",
)

if __name__ == "__main__":
    main(TABLE)
