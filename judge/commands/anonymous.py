"""``judge anonymous``: how often captions name an attribute that cannot be seen, by a lexicon and by human raters."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from judge.commands.console import say, show_progress
from judge.commands.images import known_images
from judge.commands.setup import choose_lexicon
from judge.config import OutputSettings
from judge.config.inputs import ReadingSettings, TokenSettings, WordSettings
from judge.config.values import CAPTIONS, IMAGES, RESULTS, SEVERAL, CaptionFiles, Lexicons, Seed, list_or_text
from judge.corpus import check_owners, refuse_unread
from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.ratings import CAPTION, ITEM, RATER, Sheet, key_csv, rating_sheet, read_ratings, sheet_csv
from judge.errors import JudgeError, nearest
from judge.evidence import TextOptions
from judge.report import anonymous as report
from judge.report.render import open_console, print_table, print_text
from judge.report.table import Table, how_many
from judge.report.warnings import text_notes
from judge.statistics.consistency import correlate
from judge.statistics.naming import human_score, krippendorff_alpha, measure_naming
from judge.text.lexicon import Lexicon, mask, named_lexicons
from judge.text.survey import SideWords
from judge.text.tokens import first_sentence
from judge.types import Captions, Progress
from judge.utils.options import option
from judge.utils.outputs import OutputFolder

SUMMARY, SETTINGS, SHEET, KEY = "anonymous.json", "anonymous.yaml", "rating.csv", "rating_key.csv"
SCORES = "human_scores.csv"


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
    ratings: Annotated[tuple[Path, ...], list_or_text(tuple)] = option(
        (), "rating.csv that a rater filled in", repeated="FILE", essential=True
    )
    several: bool = option(False, SEVERAL)
    sample: int | None = option(None, "images on the rating sheet, drawn at random", "all", essential=True, ge=1)
    seed: Seed = option(0, "seed of the sheet's sample and order")
    level: float = option(0.95, "confidence level of intervals", gt=0.5, lt=1)
    out: Path = option(..., RESULTS, "runs/anonymous", essential=True)


def measure_anonymous(config: AnonymousConfig, *, progress: Progress | None = None) -> report.Anonymous:
    """Measure how often captions name the attribute; write the results and a rating sheet to ``config.out``."""
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
    sheet, rated = _make_sheet(config, classes, captioners), None
    if config.ratings:  # Beside human scores, the lexicon's share of the same captions.
        ratings = read_ratings(config.ratings, sheet)
        named = {item.name: bool(lexicon.mentions(words.words(item.text))) for item in sheet.items}
        scores = [human_score(ratings, captions.name, named, level=config.level) for captions in captioners]
        both = [row for row in scores if row.share.captions]
        agreement = correlate([row.named.value for row in both], [row.share.value for row in both], level=config.level)
        rated = report.Rated(ratings.raters, krippendorff_alpha(ratings.votes()), scores, agreement)
    result = report.Anonymous(
        lexicon=(lexicon.name if config.lexicon is None else str(config.lexicon), lexicon.source),
        captioners=rows,
        left_out=left_out,
        sheet=sheet,
        silent=without_words,
        notes=[*_notes(config, lexicon, captioners)],
        rated=rated,
    )
    out.begin()
    with out.working(), out.writing():
        texts = {
            SUMMARY: report.anonymous_json(result),
            SETTINGS: config.to_yaml(),
            # Excel needs the mark to read a table as UTF-8.
            SHEET: "\ufeff" + sheet_csv(sheet),
            KEY: key_csv(sheet),
        }
        if result.rated:
            texts[SCORES] = report.human_scores_csv(result.rated)
        for name, text in texts.items():
            (out.partial / name).write_text(text, encoding="utf-8", newline="")
        out.publish()
    return result


def _choose_lexicon(config: AnonymousConfig) -> Lexicon:
    if config.attribute in {ITEM, RATER, CAPTION}:
        what = f"'{config.attribute}' is a column of the rating sheet already"
        raise JudgeError(what, where="--attribute", mend="call it otherwise")
    if "," in config.attribute:
        mend = "run the command once for each"
        raise JudgeError("one attribute is rated at a time", where=f"--attribute {config.attribute}", mend=mend)
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
        yield "Captioners have captions of different images: the rating sheet has those in common."
    options = TextOptions(config.contractions, config.text, lexicon.language)
    for captions in captioners:
        raw = [options.words(text) for texts in captions.by_image.values() for text in texts]
        words = SideWords(raw, [mask(caption, lexicon) for caption in raw], [""] * len(raw))
        for note in text_notes(asdict(words.survey(words, lexicon, captions)), config.attribute):
            yield f"Captions of {captions.name} {note}."


def _make_sheet(config: AnonymousConfig, classes: Sequence[str], captioners: Sequence[Captions]) -> Sheet:
    """The rating sheet of the images that all captioners have captions of, or of a sample of these."""
    images = sorted(set.intersection(*(set(captions.by_image) for captions in captioners)))
    if not images:
        raise JudgeError("the captioners have no image in common", where="--captions", mend="give captions of the same")
    if config.sample is not None and config.sample < len(images):
        drawn = np.random.default_rng(config.seed).choice(len(images), config.sample, replace=False)
        images = [images[place] for place in sorted(drawn.tolist())]
    shorten = first_sentence if config.text == "first-sentence" else str
    kept = [
        replace(captions, by_image={image: tuple(map(shorten, captions.by_image[image])) for image in images})
        for captions in captioners
    ]
    return rating_sheet(kept, config.attribute, classes, seed=config.seed)


def command(config: AnonymousConfig) -> None:
    """Count captions that name an attribute which cannot be seen, and make a sheet for people to rate them.

    The protocol of AnonymousBench: captions of images in which nobody can tell the attribute. Leaves anonymous.json,
    anonymous.yaml, rating.csv and rating_key.csv in --out; and human_scores.csv with --ratings.
    """
    with show_progress() as progress:
        found = measure_anonymous(config, progress=progress)
    tables: list[Table[Any]] = [report.naming_table(found)]
    if found.rated:
        tables += [report.score_table(found, found.rated), report.agreement_table(found.rated)]
    for table in tables:
        print_table(table)
        say("")
    for line in report.anonymous_notes(found):
        print_text(f"NOTE: {line}", open_console())
    if found.rated:
        say(f"Human scores, for judge evaluate --human-scores: {config.out / SCORES}")
    else:
        *answers, last = found.sheet.answers
        say(f"{how_many(len(found.sheet.items), 'caption')} to rate in {config.out / SHEET}: raters fill in the column")
        say(f"'{found.sheet.attribute}' with {', '.join(answers)} or {last}. Then")
        say(f"  judge anonymous {config.out / SETTINGS} --ratings FILE --ratings FILE ... --out {config.out}-rated")
    say(f"The results are in {config.out}")
