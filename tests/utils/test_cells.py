"""No text of a table is a formula in a spreadsheet, and what reads the table back gets the text."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from judge.utils.cells import read_guarded, table_csv


def test_there_and_back() -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\ta", "\ra", "'s", "'=1", "a=b", "", 'caf\u00e9, "q"']
    table = pd.DataFrame({"text": texts, "number": np.linspace(-0.5, 0.5, len(texts)), "whole": range(len(texts))})
    written = table_csv(table)
    plain = pd.read_csv(io.StringIO(written, newline=""), keep_default_na=False)
    assert not {cell[:1] for cell in plain["text"]} & set("=+-@\t\r")
    assert plain["number"][0] == -0.5
    pd.testing.assert_frame_equal(read_guarded(plain), table)
