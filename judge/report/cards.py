"""Model cards for the Hugging Face hub: of a captioner, with what was measured, and of an exported judge."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from judge.judges.names import HUGGING_FACE
from judge.report.notes import hidden_things, summary_lines
from judge.report.render import markdown
from judge.report.saved_run import SavedRun
from judge.report.sections import images_of, plain
from judge.report.table import as_json, grouped
from judge.report.tables import Line, lines_of, result_table
from judge.report.warnings import warnings
from judge.statistics.summary import Summary
from judge.training.judge_file import Saved
from judge.utils.files import from_home


def _render(template: str, header: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    from huggingface_hub import CardData
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # A card is Markdown: values are escaped where they are made.
    settings: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "keep_trailing_newline": True}
    templates = Environment(loader=PackageLoader("judge.report"), autoescape=False, **settings)  # noqa: S701
    metadata = CardData(**header).to_yaml() if header else "{}"
    return templates.get_template(template).render({**values, "header": metadata})


def captioner_card(saved: SavedRun) -> str:
    """The header and the section to paste into the README.md of a captioner, from a run or several that were joined.

    Of several captioners ``model-index`` has an entry each: keep the one that the card is of. A value is a fraction;
    its interval, judge and protocol are in its name and ``args``. Rows without a value are left out.
    """
    from huggingface_hub.repocard_data import eval_results_to_model_index

    result, run = saved.result, saved.result.run
    evaluations = _evaluations(saved).items()
    index = [entry for name, found in evaluations for entry in eval_results_to_model_index(name, found)]
    source = str(run["labels"]["source"])
    if not source.startswith("derived: "):  # Folders of one's own mean nothing to others.
        source = "; ".join(Path(path).name for path in source.split("; "))
    attribute = f"{run['attribute']}, as perceived ({images_of(result)})"
    facts = {"attribute": attribute, "labels": source, "measured with": f"Caption Judge {run['version']}"}
    notes = [*summary_lines(result), *(f"NOTE: {line}" for line in warnings(result))]
    values = {
        "remark": "dataset, type: write the data set's name on the hub, if it has one" if index else "",
        "table": markdown(result_table(result, sides=True)).partition("\n\n")[2],  # The section has its title.
        "facts": facts,
        "notes": list(map(plain, notes)),
    }
    return _render("captioner_card.md", {"model-index": index} if index else {}, values)


def eval_results(saved: SavedRun) -> str:
    """A file of ``.eval_results/`` (https://huggingface.co/docs/hub/eval-results), with the values of a card."""
    entries = [
        {"dataset": {"id": of.dataset_type, "task_id": of.metric_type}, "value": of.metric_value}
        | {"notes": f"{name}: {of.metric_name}, by Caption Judge {saved.result.run['version']}"}
        for name, found in _evaluations(saved).items()
        for of in found
    ]
    remark = "# dataset, id: write the name of the benchmark on the hub. Keep the entries of your captioner alone."
    return f"{remark}\n{yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=1000)}"


def _evaluations(saved: SavedRun) -> dict[str, list[Any]]:
    lines = (line for line in lines_of(saved.result) if _value(line.summary) is not None)
    return grouped((line.summary.captioner, _evaluation(line, saved)) for line in lines)


def _value(row: Summary) -> float | None:
    value = row.amplification if row.metric.amplification != "one_side" else row.generated
    if value is None and row.metric.counted:
        value = row.published
    return float(value) if value is not None and math.isfinite(value) else None


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
    names = "judge", "human", "generated", "interval", "p_value", "images", "chance_level", "published"
    args = {name: getattr(row, name) for name in names} | {"interval_from": row.basis}
    args |= {"verdict": conclusion.verdict, "because": conclusion.because or None}
    args["protocol"] = None if row.metric.counted else run["protocol"]
    args["level"] = run["level"] if row.interval else None
    args = as_json(args)
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
        # Infinite ends of intervals have no value either.
        metric_args={name: of for name, of in args.items() if None not in (of if isinstance(of, list) else [of])},
        verified=False,
    )


def judge_card(saved: Saved, *, merged: bool) -> str:
    """README.md of an exported judge, but for its license; ``merged``: of a whole checkpoint of transformers."""
    header: dict[str, Any] = {"library_name": "transformers" if merged else "caption-judge"}
    header["tags"] = ["caption-judge", "bias", "image-captioning"]
    # A folder of one's own means nothing to others.
    if saved.base and not from_home(saved.base).exists():
        header["base_model"] = saved.base
    attribute = saved.preparation.attribute if saved.preparation else "unknown"
    guesses = attribute if saved.target.kind == "attribute" else "tasks (what else an image shows)"
    values = {"saved": saved, "guesses": guesses, "data": _data(saved, attribute, guesses), "hidden": _hidden(saved)}
    return _render("judge_card.md", header, {**values, "held_out": saved.data.get("held_out"), "merged": merged})


def _data(saved: Saved, attribute: str, guesses: str) -> Iterator[tuple[str, object]]:
    data = saved.data
    images, side = data.get("images"), data.get("side")
    yield "attribute", f"{attribute}, as perceived"
    yield "guesses", f"{guesses}: {', '.join(saved.target.classes)}"
    yield "captions", f"{data.get('captioner')}'s" if side == "generated" else "human"
    if side == "human" and saved.preparation and saved.preparation.vocabulary is not None:
        yield "aligned with", f"{data.get('captioner')}'s words ({data.get('alignment')})"
    by_sentence = saved.preparation and saved.preparation.options.text == "sentences"
    yield f"{'sentence' if by_sentence else 'caption'} of each image", f"number {int(data.get('index', 0)) + 1}"
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
    if saved.sees and masking.get("mask") in {None, "none"}:
        yield "in images", "nothing"
    elif saved.sees:
        what, by = hidden_things(str(masking.get("hide")), masking.get("category")), masking.get("detector")
        yield "in images", f"{what}, {masking['mask']}, by detector {by}, as {masking.get('fill')}"
