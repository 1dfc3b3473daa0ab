"""``judge anonymous``: how often captions name an attribute that cannot be seen, by a lexicon."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from judge.commands.console import say, show_progress
from judge.commands.images import known_images
from judge.commands.setup import choose_lexicon
from judge.config import OutputSettings
from judge.config.inputs import ReadingSettings, TokenSettings, WordSettings
from judge.config.values import CAPTIONS, IMAGES, RESULTS, SEVERAL, CaptionFiles, Lexicons
from judge.corpus import check_owners, refuse_unread
from judge.corpus.captions import ReadOptions, read_captions
from judge.errors import JudgeError, nearest
from judge.evidence import TextOptions
from judge.report import anonymous as report
from judge.report.render import open_console, print_table, print_text
from judge.report.table import how_many
from judge.report.warnings import text_notes
from judge.statistics.naming import measure_naming
from judge.text.lexicon import Lexicon, mask, named_lexicons
from judge.text.survey import SideWords
from judge.types import Captions, Progress
from judge.utils.options import option
from judge.utils.outputs import OutputFolder

SUMMARY, SETTINGS = "anonymous.json", "anonymous.yaml"


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


def measure_anonymous(config: AnonymousConfig, *, progress: Progress | None = None) -> report.Anonymous:
    """Measure how often captions name the attribute; write the results to ``config.out``."""
    out = OutputFolder(config.out, what="anonymous benchmark", overwrite=config.overwrite)
    out.check(config.inputs())
    lexicon = _choose_lexicon(config)
    captioners, left_out = _read(config)
    if progress:
        progress("counting", 0, len(captioners))
    words, classes = TextOptions(config.contractions, config.text, lexicon.language), tuple(lexicon.classes)
    without_words = tuple(lexicon.without_words_for(classes))
    rows = []
    for captions in captioners:
        found = {
            image: [lexicon.mentions(words.words(text)) for text in texts] for image, texts in captions.by_image.items()
        }
        rows.append(measure_naming(captions.name, found, classes, silent=without_words, level=config.level))
    result = report.Anonymous(
        attribute=config.attribute,
        classes=classes,
        lexicon=(lexicon.name if config.lexicon is None else str(config.lexicon), lexicon.source),
        captioners=rows,
        left_out=left_out,
        silent=without_words,
        notes=[*_notes(config, lexicon, captioners)],
    )
    out.begin()
    with out.working(), out.writing():
        texts = {
            SUMMARY: report.anonymous_json(result),
            SETTINGS: config.to_yaml(),
        }
        for name, text in texts.items():
            (out.partial / name).write_text(text, encoding="utf-8", newline="")
        out.publish()
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


def _read(config: AnonymousConfig) -> tuple[list[Captions], dict[str, dict[str, int]]]:
    """Captions of the benchmark's images; and captioner -> reason -> how many captions or images were left out."""
    options = ReadOptions(config.split, columns=config.columns, several=config.several, where=config.where, alone=True)
    known = known_images(config.images, None).keys() if config.images else None
    captioners, left_out = [], {}
    check_owners(config.columns, config.captions)
    for name, path in config.captions.items():
        found = read_captions(path, options, side="generated", name=name)
        left_out[name] = {"empty captions": found.empty, "refusals": found.refused}
        if known is not None:
            of_images = {image: texts for image, texts in found.by_image.items() if image in known}
            if not of_images:
                other = next(iter(found.by_image))
                what = f"no caption of the {how_many(len(known), 'image')} in --images (there is one of '{other}')"
                raise JudgeError(what, where=str(path), mend="give the captions of these images")
            left_out[name]["captioned images that are not in --images"] = len(found.by_image) - len(of_images)
            left_out[name]["images without a caption"] = len(known - of_images.keys())
            found = replace(found, by_image=of_images)
        captioners.append(found)
    refuse_unread(config.columns, captioners)
    return captioners, left_out


def _notes(config: AnonymousConfig, lexicon: Lexicon, captioners: Sequence[Captions]) -> Iterator[str]:
    """Notes on what is counted, on how captions were cleaned, and on words that the lexicon may miss."""
    if config.images is None:
        yield "No --images: captions of all images in the files count, and images without a caption are not known."
    if len({frozenset(captions.by_image) for captions in captioners}) > 1:
        yield "Captioners have captions of different images."
    options = TextOptions(config.contractions, config.text, lexicon.language)
    for captions in captioners:
        raw = [options.words(text) for texts in captions.by_image.values() for text in texts]
        words = SideWords(raw, [mask(caption, lexicon) for caption in raw], [""] * len(raw))
        for note in text_notes(asdict(words.survey(words, lexicon, captions)), config.attribute):
            yield f"Captions of {captions.name} {note}."


def command(config: AnonymousConfig) -> None:
    """Count captions that name an attribute which cannot be seen.

    The images are like AnonymousBench's, in which nobody can tell the attribute. Leaves anonymous.json and
    anonymous.yaml in --out.
    """
    with show_progress() as progress:
        found = measure_anonymous(config, progress=progress)
    print_table(report.naming_table(found))
    say("")
    for line in report.anonymous_notes(found):
        print_text(f"NOTE: {line}", open_console())
    say(f"The results are in {config.out}")
