"""Model cards for the Hugging Face hub: of a captioner, with what was measured, and of an exported judge."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judge.judges import HUGGING_FACE
from judge.report.notes import summary_lines
from judge.report.printing import images_of, plain
from judge.report.render import markdown
from judge.report.saved_run import SavedRun
from judge.report.table import as_json
from judge.report.tables import Line, lines_of, result_table
from judge.report.warnings import warnings
from judge.statistics.summary import Summary
from judge.training.judge_file import Saved
from judge.utils.files import from_home

_PERCEIVED = """\
- **Perceived classes.** Labels are what annotators or caption writers saw in an image. They say nothing about
  anyone's identity, and leave out many people."""
_CAPTIONER_LIMITS = f"""\
{_PERCEIVED}
- **No certificate.** "Cannot tell" is not "unbiased": a judge finds only what it can learn, in the captions of this
  data set."""
_JUDGE_LIMITS = f"""\
- **No judgement of people.** Never use this judge to infer an attribute of a person. It was trained to guess from
  stereotypes; that is its purpose, and it makes it wrong about individuals.
{_PERCEIVED}
- **No certificate.** A judge finds only what it can learn, in the captions (and images) of this data set. "Cannot
  tell" is not "unbiased".
- **Other data, other judge.** Its probabilities are for captions like those that it was trained on; for other captions
  they are no measurement. Bias amplification is measured with judges trained on both sides: `judge evaluate`."""


def _card(header: Mapping[str, Any], remark: str, sections: Mapping[str, str], title: str = "") -> str:
    """A card: the hub's YAML header with a comment, and sections, heading -> text."""
    from huggingface_hub import CardData

    metadata = CardData(**header).to_yaml() if header else "{}"
    text = "\n\n".join(f"## {heading}\n\n{content}" for heading, content in sections.items())
    return f"---\n{metadata}\n{f'# {remark}' if remark else ''}\n---\n\n{f'# {title}' if title else ''}\n\n{text}\n"


def _bullets(rows: Iterator[tuple[str, object]]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in rows)


def captioner_card(saved: SavedRun) -> str:
    """The header and the section to paste into the README.md of a captioner.

    Of several captioners ``model-index`` has an entry each: keep the one that the card is of. A value is a fraction;
    its interval, judge and protocol are in its name and ``args``. Rows without a value are left out.

    Args:
        saved: a run, or several that were joined.
    """
    from huggingface_hub.repocard_data import eval_results_to_model_index

    result, run = saved.result, saved.result.run
    lines = [line for line in lines_of(result) if _value(line.summary) is not None]
    index: list[dict[str, Any]] = []
    for name in run["captioners"]:
        if found := [_evaluation(line, saved) for line in lines if line.summary.captioner == name]:
            index += eval_results_to_model_index(name, found)
    source = str(run["labels"]["source"])
    if not source.startswith("derived: "):  # Folders of one's own mean nothing to others.
        source = "; ".join(Path(path).name for path in source.split("; "))
    facts = {
        "attribute": f"{run['attribute']}, as perceived ({images_of(result)})",
        "labels": source,
        "measured with": f"Caption Judge {run['version']}",
    }
    notes = [*summary_lines(result), *(f"NOTE: {line}" for line in warnings(result))]
    text = (
        "How much more stereotypically than human captions of the same images these captions describe people; "
        "positive means amplified (fractions, not percent).\n\n"
    )
    table = markdown(result_table(result)).partition("\n\n")[2]  # The section has its title.
    text += "\n".join([table, _bullets(iter(facts.items())), *(f"- {plain(note)}" for note in notes)])
    remark = "dataset, type: write the data set's name on the hub, if it has one" if index else ""
    sections = {"Bias amplification": text, "Limits of this measurement": _CAPTIONER_LIMITS}
    return _card({"model-index": index} if index else {}, remark, sections)


def _value(row: Summary) -> float | None:
    value = row.amplification if row.metric.amplification != "one_side" else row.generated
    if value is None and row.metric.counted:
        value = row.published
    return value if value is not None and math.isfinite(value) else None


def _evaluation(line: Line, saved: SavedRun) -> Any:
    """A row as Hugging Face's ``EvalResult``."""
    from huggingface_hub import EvalResult

    (row, conclusion), run = line, saved.result.run
    human = saved.settings.get("human")
    stem = Path(human).stem if isinstance(human, str) else "captions"
    images = max(other.images for other in saved.result.summaries if other.captioner == row.captioner)
    how = "counted" if row.metric.counted else f"{row.judge}, {run['protocol']}"
    if row.interval:
        how += f", {100 * run['level']:g}% interval {row.interval.low:+.3f} to {row.interval.high:+.3f}"
    args = as_json({
        "judge": row.judge,
        "protocol": None if row.metric.counted else run["protocol"],
        "human": row.human,
        "generated": row.generated,
        "interval": row.interval,
        "level": run["level"] if row.interval else None,
        "interval_from": row.basis,
        "p_holm": conclusion.p_holm,
        "verdict": conclusion.verdict,
        "reason": conclusion.reason,
        "images": row.images,
        "chance_level": row.chance_level,
        "published": row.published,
    })  # fmt: skip
    what = "bias amplification" if row.amplification is not None else "score"
    return EvalResult(
        task_type="image-to-text",
        task_name="Image captioning",
        dataset_type=re.sub(r"[^\w.-]+", "-", stem),
        dataset_name=f"{stem} ({images:,} images, {run['attribute']})",
        dataset_args={"attribute": run["attribute"], "images": images},
        metric_type=re.sub(r"[^\w-]+", "-", row.metric.name),
        metric_name=f"{row.metric.title} {what} ({how})",
        metric_value=_value(row),
        metric_args={
            name: value for name, value in args.items() if None not in (value if isinstance(value, list) else [value])
        },
        verified=False,
    )


def judge_card(saved: Saved, *, merged: bool) -> str:
    """README.md of an exported judge, with the hub's YAML header; the license is left to whoever shares it.

    Args:
        saved: the contents of its file.
        merged: whether the folder is a whole checkpoint of transformers.
    """
    header: dict[str, Any] = {"library_name": "transformers" if merged else "caption-judge"}
    header["tags"] = ["caption-judge", "bias", "image-captioning"]
    # A folder of one's own means nothing to others.
    if saved.base and not from_home(saved.base).exists():
        header["base_model"] = saved.base
    attribute = saved.preparation.attribute if saved.preparation else "unknown"
    guesses = attribute if saved.target.kind == "attribute" else "tasks (what else an image shows)"
    use = "judge predict --judge-weights THIS_FOLDER --captions new.json" + (" \\\n    --images DIR" * saved.sees)
    checkpoint = (
        "\n\nThe folder is a checkpoint of transformers as well: `--judge hf:THIS_FOLDER --tuning zero-shot` of "
        "`judge evaluate` asks it about captions of a run."
    )
    sections = {
        "What it is": f"A judge (`{saved.judge}`) of Caption Judge: it reads captions in which words are hidden, and "
        "guesses. How well it can is evidence of what else in captions goes with the attribute.",
        "Data": _bullets(_data(saved, attribute, guesses)),
        "What was hidden": _bullets(_hidden(saved)),
        "Held-out accuracy": _accuracy(saved),
        "Limits and responsible use": _JUDGE_LIMITS,
        "Use": f"```\n{use}\n```{checkpoint if merged else ''}",
    }
    return _card(header, "license: choose one, and take the number sign away", sections, f"A judge of {guesses}")


def _data(saved: Saved, attribute: str, guesses: str) -> Iterator[tuple[str, object]]:
    data = saved.data
    images, side = data.get("images"), data.get("side")
    yield "attribute", f"{attribute}, as perceived"
    yield "guesses", f"{guesses}: {', '.join(saved.target.classes)}"
    yield "captions", f"{data.get('captioner')}'s" if side == "generated" else "human"
    if side == "human" and saved.preparation and saved.preparation.vocabulary is not None:
        yield "aligned with", f"{data.get('captioner')}'s words ({data.get('alignment')})"
    yield "caption of each image", f"number {int(data.get('index', 0)) + 1}"
    counts = ", ".join(f"{count} {name}" for name, count in images.items()) if isinstance(images, dict) else images
    yield "captions that it was trained on", counts
    yield "seed and fold", f"{data.get('seed')} and {data.get('fold')}"
    if recipe := saved.recipe:
        yield "epochs, learning rate, batch", f"{recipe.epochs}, {recipe.learning_rate:g}, {recipe.batch_size}"
    if saved.base:
        yield "started from", Path(saved.base).name if from_home(saved.base).exists() else saved.base
    if saved.judge.startswith(HUGGING_FACE):
        yield "tuning", saved.materials.tuning


def _hidden(saved: Saved) -> Iterator[tuple[str, object]]:
    lexicon, masking = saved.preparation.lexicon if saved.preparation else None, saved.masking
    yield "in captions", f"words of '{lexicon.name}' ({lexicon.source})" if lexicon else "no words"
    if not saved.sees:
        return
    if masking.get("mask") in {None, "none"}:
        yield "in images", "nothing"
        return
    what = {"object": masking.get("category"), "both": f"people and {masking.get('category')}"}
    found = what.get(str(masking.get("hide")), "people")
    yield "in images", f"{found}, {masking['mask']}, by detector {masking.get('detector')}, as {masking.get('fill')}"


def _accuracy(saved: Saved) -> str:
    held = saved.data.get("held_out") or {}
    if held.get("accuracy") is None:
        return "Not known."
    return (
        f"{held['accuracy']:.3f}, a mean over classes, on {held['images']} captions of its own side that it was not "
        f"trained on (1 / classes: {1 / len(saved.target.classes):.3f})."
    )
