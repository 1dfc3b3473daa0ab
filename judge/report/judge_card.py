"""The model card of a trained judge: what it learnt from, what was hidden, what it is not for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judge.judges import HUGGING_FACE
from judge.report.card import PERCEIVED, bullets, front_matter, write_sections
from judge.training.judge_file import Saved
from judge.utils.files import from_home

_LIMITS = f"""\
- **No judgement of people.** Never use this judge to infer an attribute of a person. It was trained to guess from
  stereotypes; that is its purpose, and it makes it wrong about individuals.
{PERCEIVED}
- **No certificate.** A judge finds only what it can learn, in the captions (and pictures) of this data set. "Cannot
  tell" is not "unbiased".
- **Other data, other judge.** Its probabilities are for captions like those that it learnt from; what it says of others
  is no measurement. Bias amplification is measured with judges trained on both sides: `judge evaluate`."""


def card_of(saved: Saved, *, merged: bool) -> str:
    """README.md of an exported judge, with the hub's YAML header; the license is left to whoever shares it.

    Args:
        saved: what its file says.
        merged: whether the folder is a whole checkpoint of transformers.
    """
    header = _header(saved, merged=merged)
    attribute = saved.preparation.attribute if saved.preparation else "unknown"
    guesses = attribute if saved.target.kind == "attribute" else "tasks (what else an image shows)"
    use = ["judge predict --judge-weights THIS_FOLDER --captions new.json"]
    use += ["    --images DIR"] if saved.sees else []
    sections = {
        "What it is": f"A judge (`{saved.judge}`) of Caption Judge: it reads captions in which words are hidden, and "
        "guesses. How well it can is evidence of what else in captions goes with the attribute.",
        "Data": bullets(_data(saved, attribute, guesses)),
        "What was hidden": bullets(_hidden(saved)),
        "Held-out accuracy": _accuracy(saved),
        "Limits and responsible use": _LIMITS,
        "Use": "```\n" + " \\\n".join(use) + "\n```" + _as_checkpoint(merged=merged),
    }
    front = front_matter(header, "license: choose one, and take the number sign away")
    return f"{front}\n# A judge of {guesses}\n\n{write_sections(sections)}"


def _header(saved: Saved, *, merged: bool) -> dict[str, Any]:
    header: dict[str, Any] = {"library_name": "transformers" if merged else "caption-judge"}
    header["tags"] = ["caption-judge", "bias", "image-captioning"]
    # A folder of one's own means nothing to others.
    if saved.base and not from_home(saved.base).exists():
        header["base_model"] = saved.base
    return header


def _data(saved: Saved, attribute: str, guesses: str) -> Iterator[tuple[str, object]]:
    data = saved.data
    images = data.get("images")
    counts = ", ".join(f"{count} {name}" for name, count in images.items()) if isinstance(images, dict) else images
    yield "attribute", f"{attribute}, as perceived"
    yield "guesses", f"{guesses}: {', '.join(saved.target.classes)}"
    side = data.get("side")
    yield "captions", f"{data.get('captioner')}'s" if side == "generated" else "people's"
    if side == "human" and saved.preparation and saved.preparation.vocabulary is not None:
        yield "aligned with", f"{data.get('captioner')}'s words ({data.get('alignment')})"
    yield "caption of each image", f"number {int(data.get('index', 0)) + 1}"
    yield "captions that it learnt from", counts
    yield "seed and fold", f"{data.get('seed')} and {data.get('fold')}"
    if recipe := saved.recipe:
        yield "epochs, learning rate, batch", f"{recipe.epochs}, {recipe.learning_rate:g}, {recipe.batch_size}"
    if saved.base:
        yield "started from", Path(saved.base).name if from_home(saved.base).exists() else saved.base
    if saved.judge.startswith(HUGGING_FACE):
        yield "tuning", saved.materials.tuning


def _hidden(saved: Saved) -> Iterator[tuple[str, object]]:
    lexicon = saved.preparation.lexicon if saved.preparation else None
    yield "in captions", f"words of '{lexicon.name}' ({lexicon.source})" if lexicon else "no words"
    if not saved.sees:
        return
    masking = saved.masking
    if masking.get("mask") in {None, "none"}:
        yield "in pictures", "nothing"
        return
    what = {"object": masking.get("category"), "both": f"people and {masking.get('category')}"}
    found = what.get(str(masking.get("hide")), "people")
    yield "in pictures", f"{found}, {masking['mask']}, by detector {masking.get('detector')}, as {masking.get('fill')}"


def _accuracy(saved: Saved) -> str:
    held = saved.data.get("held_out") or {}
    if held.get("accuracy") is None:
        return "Not known."
    chance = 1 / len(saved.target.classes)
    return (
        f"{held['accuracy']:.3f}, a mean over classes, on {held['images']} captions of its own side that it did not "
        f"learn from (1 / classes: {chance:.3f})."
    )


def _as_checkpoint(*, merged: bool) -> str:
    if not merged:
        return ""
    return (
        "\n\nThe folder is a checkpoint of transformers as well: `--judge hf:THIS_FOLDER --tuning zero-shot` of "
        "`judge evaluate` asks it about captions of a run."
    )
