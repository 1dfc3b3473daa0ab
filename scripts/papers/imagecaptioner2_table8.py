"""ImageCaptioner2, Table 8: racial bias by LIC and by ImageCaptioner2, two judges each."""

from __future__ import annotations

from _imagecaptioner2 import imagecaptioner2_table
from _table import main

TABLE = imagecaptioner2_table(
    "imagecaptioner2_table8", "Table 8", "racial bias, two judges a metric", attribute="skin", told=("", "")
)

if __name__ == "__main__":
    main(TABLE)
