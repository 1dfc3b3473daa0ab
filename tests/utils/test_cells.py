"""No text of a table is a formula in a spreadsheet, and what reads the table back gets the text."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from judge.utils.cells import in_text, read_guarded, rows_csv, table_csv


def test_there_and_back() -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\ta", "\ra", "'s", "'=1", "a=b", "", 'caf\u00e9, "q"']
    begins, signs = ("", "\n", " ", "\u00a0", "\ufeff", "\t "), "=\uff1d\uff0b\uff0d\uff20"
    texts += [f"{begin}{sign}1" for begin in begins for sign in signs]
    table = pd.DataFrame({"=text": texts, "number": np.linspace(-0.5, 0.5, len(texts)), "whole": range(len(texts))})
    written = table_csv(table)
    plain = pd.read_csv(io.StringIO(written, newline=""), keep_default_na=False)
    stripped = plain["'=text"].str.strip(" \n\t\r\u00a0\ufeff")
    assert not set(stripped.str[:1]) & {*"=+-@\uff1d\uff0b\uff0d\uff20"}
    assert plain["number"][0] == -0.5
    pd.testing.assert_frame_equal(read_guarded(plain), table)
    assert rows_csv(list(table), table.itertuples(index=False)) == written


def test_whole_numbers_stay_whole_beside_empty_cells_and_decimals() -> None:
    assert rows_csv(["a", "b"], [[1, 2**60], [None, 2.5]]) == "a,b\n1,1152921504606846976\n,2.5\n"


def test_what_is_missing_among_categories_stays_missing() -> None:
    table = pd.DataFrame({"predicted": pd.Categorical(["nan", None]), "n": [1, 2]})
    found = in_text(table)
    assert found["predicted"].isna().tolist() == [False, True]
    assert not found.select_dtypes("category").columns.any()
