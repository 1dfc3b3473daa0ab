"""``judge anonymous``: how often captions name an attribute that cannot be seen, by a lexicon."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judge.commands.console import say, show_progress
from judge.commands.images import known_images
from judge.commands.setup import choose_lexicon, reading_options
from judge.config import OutputSettings
from judge.config.inputs import ReadingSettings, TokenSettings, WordSettings
from judge.config.values import CAPTIONS, IMAGES, RESULTS, SEVERAL, CaptionFiles, Lexicons
from judge.corpus import refuse_unread
from judge.corpus.captions import read_captions
from judge.corpus.columns import check_owners
from judge.errors import JudgeError, nearest
from judge.evidence import TextOptions
from judge.report.render import print_table
from judge.report.table import COUNT, NUMBER, Table, json_text, table_of
from judge.statistics.naming import Naming, measure_naming
from judge.text.lexicon import Lexicon, named_lexicons
from judge.types import Captions, Progress
from judge.utils.options import option
from judge.utils.outputs import OutputFolder

SUMMARY, SETTINGS = "anonymous.json", "anonymous.yaml"
_NOT_FAIRNESS = (
    "A low share is not fairness: a captioner that never names anybody scores 0, whatever else it says of people."
)


class AnonymousConfig(OutputSettings, WordSettings, ReadingSettings, TokenSettings):
    """Options of ``judge anonymous``."""

    command = "judge anonymous"
    panel = "Input"

    attribute: str = option("gender", "attribute that cannot be seen in the images", essential=True)
    lexicon: Lexicons = option(
        None, "words that name a class: a shipped lexicon, or a .yaml file", "the attribute's own",
        repeated="[NAME=]TEXT", essential=True, file=True,
    )  # fmt: skip
    captions: CaptionFiles = option(..., CAPTIONS, repeated="[NAME=]FILE", essential=True, min_length=1)
    images: Path | None = option(
        None, f"{IMAGES} of the benchmark; captions of other images are left out", essential=True
    )
    several: bool = option(False, SEVERAL)
    level: float = option(0.95, "confidence level of intervals", gt=0.5, lt=1)
    out: Path = option(..., RESULTS, "runs/anonymous", essential=True)


@dataclass(frozen=True, slots=True)
class Anonymous:
    """The results of ``judge anonymous``: of ``anonymous.json``."""

    attribute: str
    classes: tuple[str, ...]
    lexicon: str
    captioners: Sequence[Naming]
    notes: Sequence[str]


def measure_anonymous(config: AnonymousConfig, *, progress: Progress | None = None) -> Anonymous:
    """Measure how often captions name the attribute; write the results to ``config.out``."""
    out = OutputFolder(config.out, what="anonymous benchmark", overwrite=config.overwrite)
    out.check(config.inputs())
    lexicon = _choose_lexicon(config)
    captioners, notes = _read(config)
    if progress:
        progress("counting", 0, len(captioners))
    words, classes = TextOptions(config.contractions, config.text, lexicon.language), tuple(lexicon.classes)
    silent = tuple(lexicon.without_words_for(classes))
    rows = []
    for captions in captioners:
        found = {
            image: [lexicon.mentions(words.words(text)) for text in texts] for image, texts in captions.by_image.items()
        }
        rows.append(measure_naming(captions.name, found, classes, silent=silent, level=config.level))
    if silent:
        notes.append(f"The lexicon has no words for {', '.join(silent)}, so no share counts captions that name it.")
    name = lexicon.name if config.lexicon is None else str(config.lexicon)
    result = Anonymous(config.attribute, classes, f"{name} ({lexicon.source})", rows, [_NOT_FAIRNESS, *notes])
    with out.making():
        out.write({SUMMARY: json_text(result), SETTINGS: config.to_yaml()})
    return result


def _choose_lexicon(config: AnonymousConfig) -> Lexicon:
    if "," in config.attribute:
        mend = "run the command once for each"
        raise JudgeError("one attribute is measured at a time", where=f"--attribute {config.attribute}", mend=mend)
    found = choose_lexicon(config)
    if found is None:
        meant = nearest(config.attribute, named_lexicons())
        mend = f"{meant} Else give" if meant.endswith("?") and config.lexicon is None else "give"
        where = "--lexicon" if config.lexicon else f"--attribute {config.attribute}"
        raise JudgeError(f"no words of '{config.attribute}'", where=where, mend=f"{mend} --lexicon FILE.yaml")
    return found


def _read(config: AnonymousConfig) -> tuple[list[Captions], list[str]]:
    """Read the captions of the benchmark's images. The notes name captions and images that do not count."""
    options = reading_options(config, several=config.several, alone=True)
    check_owners(config.columns, ["captions", *config.captions])
    known = known_images(config.images, None).keys() if config.images else None
    captioners = list[Captions]()
    notes = ["No --images: captions of all images in the files count."] if known is None else []
    for name, path in config.captions.items():
        found = read_captions(path, options, side="generated", name=name)
        if found.refused:
            notes.append(f"Refusals of {name} are not counted: {found.refused:,}.")
        if known is not None:
            of_images = {image: texts for image, texts in found.by_image.items() if image in known}
            if not of_images:
                mend = "give the captions of these images"
                raise JudgeError("no caption of an image in --images", where=str(path), mend=mend)
            if without := len(known - of_images.keys()):
                notes.append(f"Images without a caption of {name}: {without:,}.")
            found = replace(found, by_image=of_images)
        captioners.append(found)
    refuse_unread(config.columns, captioners)
    return captioners, notes


def naming_table(found: Anonymous) -> Table[tuple[Any, ...]]:
    """A row for each captioner: how many of its captions name a class, which, and the balance between classes."""
    classes = found.classes
    # One of two shares of the balance says all.
    balanced = classes[:1] if len(classes) == 2 else classes
    numbers = [("images", COUNT), ("captions", COUNT), ("name a class", NUMBER), ("interval", NUMBER)]
    numbers += [(name, NUMBER) for name in (*classes, "several")]
    numbers += [column for name in balanced for column in ((f"{name} of one", NUMBER), ("interval", NUMBER))]
    rows = []
    for row in found.captioners:
        balance = [part for name in balanced for part in (row.balance[name].value, row.balance[name].interval)]
        of, shares = row.share, [*(row.classes[name].value for name in classes), row.several.value]
        rows.append((row.captioner, of.images, of.captions, of.value, of.interval, *shares, *balance))
    note = f"Shares of captions. '{classes[0]} of one' is a share of the captions that name exactly one class."
    words = f"By the words of the lexicon {found.lexicon}: a class that other words tell is not found."
    return table_of(["captioner"], numbers, rows, f"Captions that name {found.attribute}", (note, words, *found.notes))


def command(config: AnonymousConfig) -> None:
    """Count captions that name an attribute which cannot be seen.

    The images are like AnonymousBench's, in which nobody can tell the attribute. Leaves anonymous.json and
    anonymous.yaml in --out.
    """
    with show_progress() as progress:
        found = measure_anonymous(config, progress=progress)
    print_table(naming_table(found))
    say(f"The results are in {config.out}")
