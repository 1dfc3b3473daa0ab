"""Human judgements: scores of captioners that metrics are compared with."""

import os
from collections.abc import Sequence

from judge.corpus.columns import chosen_column, columns_of
from judge.corpus.files import read_document
from judge.corpus.records import MISSING, kind_of, mapping_entries, number_of, records, row_entries
from judge.errors import JudgeError
from judge.utils.cells import unguard


def read_human_scores(path: str | os.PathLike[str], *, captioners: Sequence[str]) -> dict[str, float]:
    """Captioner -> human score, for the captioners of a run and others in the file.

    The file holds ``{captioner: score}``, or a table with columns "captioner" and "score". ImageCaptioner2's Table 5
    compares metrics with such scores (Abdelrahman et al., AAAI 2024).
    """
    value, source = read_document(path)
    if isinstance(value, dict):
        entries = mapping_entries(value)
    else:
        rows = records(value, source=source, shapes="write {captioner: score}")
        spelled = {column.strip().lower(): column for column in columns_of(rows)}
        columns = [chosen_column(rows, spelled.get(one, one), source=source) for one in ("captioner", "score")]
        entries = row_entries(enumerate(rows, 1), *columns)
    scores: dict[str, float] = {}
    for captioner, score, at in entries:
        where = f"{source}, {at}"
        # Programs write a name of digits as a number.
        if not isinstance(captioner, str | int | float) or not str(captioner).strip():
            raise JudgeError("names no captioner", where=where, mend="write its name")
        name = str(captioner)
        name = name if name in captioners else unguard(name)  # Our own tables guard names that look like formulas.
        if name in scores:
            raise JudgeError(f"captioner '{name}' has two scores", where=where, mend="keep one of them")
        if (number := number_of(score)) is None:
            shown = f"'{score}'" if isinstance(score, str) else "that is missing" if score is MISSING else kind_of(score)
            raise JudgeError(f"score {shown} is no number", where=where, mend="write it like 0.35")
        scores[name] = number
    if missing := [name for name in captioners if name not in scores]:
        known = ", ".join(scores) or "none"
        raise JudgeError(f"no score of captioner '{missing[0]}' (there are: {known})", where=source, mend="add it")
    return scores
