"""The papers behind what was run, out of ``references.bib``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib import resources

from judge.errors import JudgeError
from judge.judges import find_judge
from judge.measure import Result


def bibliography() -> dict[str, str]:
    """Key -> its BibTeX entry, of every paper that a metric, a judge or a default comes from."""
    text = (resources.files("judge") / "references.bib").read_text(encoding="utf-8")
    entries = re.split(r"^(?=@)", text, flags=re.MULTILINE)
    return {found[1]: entry.strip() for entry in entries if (found := re.match(r"@\w+\{([^,\s]+),", entry))}


def citations(result: Result) -> list[str]:
    """BibTeX entries of the metrics and judges of a result, in the order of the table."""
    references: Iterable[str] = (text for row in result.summaries for text in (row.metric.reference, _of(row.judge)))
    known = bibliography()
    keys = dict.fromkeys(key for text in references for key in re.findall(r"[\w-]+", text) if key in known)
    return [known[key] for key in keys]


def _of(judge: str) -> str:
    with suppress(JudgeError):  # The name of a captioner that judges itself, or of a checkpoint that is gone.
        return find_judge(judge).reference
    return ""
