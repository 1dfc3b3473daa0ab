"""A section for the model card of a captioner: what was measured, as Hugging Face's ``model-index`` and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge.report.card import PERCEIVED, bullets, front_matter, write_sections
from judge.report.caveats import warnings
from judge.report.notes import summary_lines
from judge.report.render import markdown
from judge.report.saved_run import SavedRun
from judge.report.tables import result_table
from judge.report.text_report import images_of, plain
from judge.statistics.comparisons import Conclusion
from judge.statistics.summary import Summary

TASK = {"type": "image-to-text", "name": "Image captioning"}
_LIMITS = f"""\
{PERCEIVED}
- **No certificate.** "Cannot tell" is not "unbiased": a judge finds only what it can learn, in the captions of this
  data set."""


def captioner_card(saved: SavedRun) -> str:
    """The header and the section to paste into the README.md of a captioner.

    Of several captioners ``model-index`` has an entry each: keep the one that the card is of. A value is a fraction;
    its interval, judge and protocol are in its name and ``args``. Rows without a value are left out.

    Args:
        saved: a run, or several that were joined.
    """
    result = saved.result
    rows = list(zip(result.summaries, result.conclusions(), strict=True))
    index = [
        {"name": name, "results": [_results(saved, [row for row in rows if row[0].captioner == name])]}
        for name in result.run["captioners"]
    ]
    index = [entry for entry in index if entry["results"][0]["metrics"]]
    remarks = ["dataset, type: write the data set's name on the hub, if it has one"] if index else []
    front = front_matter({"model-index": index} if index else {}, *remarks)
    told = [*summary_lines(result), *(f"NOTE: {line}" for line in warnings(result))]
    told = list(map(plain, told))
    facts = [
        ("attribute", f"{result.run['attribute']}, as perceived ({images_of(result)})"),
        ("labels", _labels(result.run["labels"])),
        ("measured with", f"Caption Judge {result.run['version']}"),
    ]
    sections = {
        "Bias amplification": "How much more stereotypically than people's captions of the same images these captions "
        "describe people; positive means amplified (fractions, not percent).\n\n"
        + "\n".join([markdown(result_table(result)), bullets(facts), *(f"- {line}" for line in told)]),
        "Limits of this measurement": _LIMITS,
    }
    return f"{front}\n{write_sections(sections)}"


def _labels(labels: Mapping[str, Any]) -> str:
    """Where labels are from; folders of one's own mean nothing to others."""
    if labels["source"].startswith("derived: "):
        return str(labels["source"])
    return "; ".join(Path(source).name for source in str(labels["source"]).split("; "))


def _results(saved: SavedRun, rows: list[tuple[Summary, Conclusion]]) -> dict[str, Any]:
    """An entry of ``results``: a data set, and every metric on it."""
    run = saved.result.run
    human = saved.settings.get("human")
    stem = Path(human).stem if isinstance(human, str) else "captions"
    counts = [row.images for row, _ in rows]
    known = {"attribute": run["attribute"], "images": max(counts, default=0)}
    return {
        "task": dict(TASK),  # YAML would refer from one to another.
        "dataset": {
            "type": re.sub(r"[^\w.-]+", "-", stem),
            "name": f"{stem} ({max(counts, default=0):,} images, {run['attribute']})",
            "args": known,
        },
        "metrics": [_metric(row, conclusion, run) for row, conclusion in rows if _value(row) is not None],
    }


def _value(row: Summary) -> float | None:
    value = row.amplification if row.metric.amplification != "one_side" else row.generated
    if value is None and row.metric.counted:
        value = row.published
    return value if value is not None and math.isfinite(value) else None


def _metric(row: Summary, conclusion: Conclusion, run: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of ``metrics``."""
    level = f"{100 * run['level']:g}%"
    how = "counted" if row.metric.counted else f"{row.judge}, {run['protocol']}"
    what = "bias amplification" if row.amplification is not None else "score"
    interval = f", {level} interval {row.interval.low:+.3f} to {row.interval.high:+.3f}" if row.interval else ""
    args = {
        "judge": row.judge,
        "protocol": None if row.metric.counted else run["protocol"],
        "human": row.human,
        "generated": row.generated,
        "interval": [row.interval.low, row.interval.high] if row.interval else None,
        "level": run["level"] if row.interval else None,
        "interval_from": row.basis,
        "p_holm": conclusion.p_holm,
        "verdict": conclusion.verdict,
        "reason": conclusion.reason,
        "images": row.images,
        "chance_level": row.chance_level,
        "published": row.published,
    }
    kept = {name: value for name, value in args.items() if value is not None and _finite(value)}
    found = {"type": re.sub(r"[^\w-]+", "-", row.metric.name), "value": _value(row)}
    return found | {"name": f"{row.metric.title} {what} ({how}{interval})", "args": kept, "verified": False}


def _finite(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
