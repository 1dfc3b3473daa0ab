"""ImageCaptioner2, Table 4: gender bias by LIC and by ImageCaptioner2, two judges each."""

from __future__ import annotations

from _imagecaptioner2 import imagecaptioner2_table
from _table import main

TABLE = imagecaptioner2_table(
    "imagecaptioner2_table4",
    "Table 4",
    "gender bias, two judges a metric",
    attribute="gender",
    told=(" (the paper: 11.11% and 92%)", " (the paper: 0% and 97%)"),
)

if __name__ == "__main__":
    main(TABLE)
