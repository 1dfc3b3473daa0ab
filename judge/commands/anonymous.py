"""``judge anonymous``: how often captions name an attribute that cannot be seen, by a lexicon and by people."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from judge.commands.console import say, show_progress
from judge.commands.images import known_pictures
from judge.commands.labels import choose_lexicon
from judge.config import OutputSettings
from judge.config.inputs import ReadingSettings, TokenSettings, WordSettings
from judge.config.values import CAPTIONS, IMAGES, RESULTS, SEVERAL, CaptionFiles, Lexicons, Seed, list_or_text, paths
from judge.corpus import check_owners, refuse_unread
from judge.corpus.rating_sheet import (
    ITEM,
    RATER,
    Question,
    Sheet,
    caption_questions,
    caption_sheet,
    key_csv,
    sheet_csv,
)
from judge.corpus.ratings import Ratings, read_ratings
from judge.corpus.reading import ReadOptions, read_captions
from judge.errors import JudgeError, nearest
from judge.evidence import TextOptions
from judge.report.anonymous import Anonymous, PeopleRow, Rated, anonymous_json, human_scores_csv
from judge.report.caveats import text_notes
from judge.report.rating_page import rating_page
from judge.report.saved_run import SavedRun, read_run
from judge.report.table import Table, how_many
from judge.statistics.correlation import correlate
from judge.statistics.naming import (
    HumanScore,
    check_lexicon,
    measure_human_scores,
    measure_naming,
    naming_differences,
)
from judge.statistics.raters import krippendorff_alpha
from judge.text.lexicon import Lexicon, shipped_lexicons
from judge.text.masking import mask
from judge.text.survey import SideWords
from judge.text.tokens import first_sentence
from judge.types import Captions, Progress
from judge.utils.folders import OutputFolder
from judge.utils.options import option


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
        None, f"{IMAGES}: those of the benchmark; captions of others are left out", essential=True
    )
    ratings: Annotated[tuple[Path, ...], list_or_text(paths)] = option(
        (), "sheet that a rater filled in, saved by rating.html or as rating.csv", repeated="FILE", essential=True
    )
    several: bool = option(False, SEVERAL)
    run: Path | None = option(
        None, "folder of a finished judge evaluate, whose metrics are compared with the ratings", essential=True
    )
    sample: int | None = option(None, "images on the rating sheet, drawn at random", "all", essential=True, ge=1)
    seed: Seed = option(0, "seed of the sheet's sample and order, and of tests by sign changes")
    level: float = option(0.95, "confidence level of intervals", gt=0.5, lt=1)
    out: Path = option(..., RESULTS, "runs/anonymous", essential=True)


SUMMARY, SETTINGS, SHEET, PAGE, KEY, SCORES = (
    "anonymous.json",
    "anonymous.yaml",
    "rating.csv",
    "rating.html",
    "rating_key.csv",
    "human_scores.csv",
)


def measure_anonymous(config: AnonymousConfig, *, progress: Progress | None = None) -> Anonymous:
    """Measure how often captions name the attribute; write the results and a rating sheet to ``config.out``.

    The folder holds ``anonymous.json``, ``anonymous.yaml``, the sheet as ``rating.csv`` and ``rating.html``, what its
    items are as ``rating_key.csv``, and where ratings came back ``human_scores.csv``.

    Raises:
        JudgeError: what the user can mend; nothing is left behind.
    """
    out = OutputFolder(config.out, what="anonymous benchmark", overwrite=config.overwrite)
    out.check(config.inputs())
    if config.run and not config.ratings:
        raise JudgeError(
            "metrics are compared with people, and there are no ratings", where="--run", mend="add --ratings"
        )
    lexicon = _lexicon(config)
    captioners, left_out = _read(config)
    if progress:
        progress("counting", 0, len(captioners))
    found = _measure(config, lexicon, captioners)
    sheet = _sheet(config, lexicon, captioners)
    found = replace(found, left_out=left_out, sheet=sheet, pictured=config.images is not None)
    if config.ratings:
        ratings = read_ratings(config.ratings, found.sheet)
        found = replace(found, rated=_rated(config, found, ratings, lexicon))
    out.begin()
    with out.working(), out.writing():
        _write(found, config, out.partial)
        out.publish()
    return found


def _lexicon(config: AnonymousConfig) -> Lexicon:
    if config.attribute in {ITEM, RATER, "caption"}:
        what = f"'{config.attribute}' is a column of the rating sheet already"
        raise JudgeError(what, where="--attribute", mend="call it otherwise")
    if "," in config.attribute:
        first, *_ = config.attribute.split(",")
        mend = f"run the command once for each: --attribute {first.strip() or 'NAME'}"
        raise JudgeError("one attribute is rated at a time", where=f"--attribute {config.attribute}", mend=mend)
    found = choose_lexicon(config)
    if found is None:
        meant = nearest(config.attribute, shipped_lexicons())
        mend = f"{meant} Else give" if meant.endswith("?") and config.lexicon is None else "give"
        where = "--lexicon" if config.lexicon else f"--attribute {config.attribute}"
        raise JudgeError(f"no words of '{config.attribute}'", where=where, mend=f"{mend} --lexicon FILE.yaml")
    return found


def _read(config: AnonymousConfig) -> tuple[list[Captions], dict[str, dict[str, int]]]:
    """Captions of the benchmark's images; and of each captioner what was left out, reason -> how many."""
    options = ReadOptions(config.split, columns=config.columns, several=config.several, where=config.where, alone=True)
    known = known_pictures(config.images, None).keys() if config.images else None
    captioners, left_out = [], {}
    check_owners(config.columns, config.captions)
    for name, path in config.captions.items():
        found = read_captions(path, options, side="generated", name=name)
        reasons = {"empty captions": found.empty, "refusals": found.refused}
        if known is not None:
            mine = {image: texts for image, texts in found.by_image.items() if image in known}
            if not mine:
                other = next(iter(found.by_image))
                what = f"no caption of the {how_many(len(known), 'picture')} in --images (there is one of '{other}')"
                raise JudgeError(what, where=str(path), mend="give the captions of these pictures")
            silent = known - mine.keys()
            reasons |= {"images that are not in --images": len(found.by_image) - len(mine)}
            reasons |= {"pictures without a caption": len(silent)}
            found = replace(found, by_image=mine)
        captioners.append(found)
        left_out[name] = reasons
    refuse_unread(config.columns, captioners)
    return captioners, left_out


def _measure(config: AnonymousConfig, lexicon: Lexicon, captioners: Sequence[Captions]) -> Anonymous:
    """All but the sheet, which it leaves empty."""
    words = TextOptions(config.contractions, config.text)
    mentions = {
        captions.name: {
            image: [lexicon.mentions(words.words(text)) for text in texts] for image, texts in captions.by_image.items()
        }
        for captions in captioners
    }
    classes, silent, level = tuple(lexicon.classes), tuple(lexicon.without_words_for(lexicon.classes)), config.level
    return Anonymous(
        attribute=config.attribute_name,
        classes=classes,
        lexicon=(lexicon.name if config.lexicon is None else str(config.lexicon), lexicon.source),
        captioners=[measure_naming(name, of, classes, silent=silent, level=level) for name, of in mentions.items()],
        silent=silent,
        left_out={},
        differences=naming_differences(mentions, generator=np.random.default_rng(config.seed), level=level),
        sheet=Sheet("", (), ()),
        level=level,
        versions={"caption-judge": version("caption-judge")},
        texts=[note for captions in captioners for note in _text_notes(config, lexicon, captions)],
    )


def _text_notes(config: AnonymousConfig, lexicon: Lexicon, captions: Captions) -> Iterator[str]:
    """Notes on what cleaning changed in captions, and on words that the lexicon may miss."""
    options = TextOptions(config.contractions, config.text)
    raw = [options.words(text) for texts in captions.by_image.values() for text in texts]
    words = SideWords(raw, [mask(of, lexicon) for of in raw], [""] * len(raw))
    notes = text_notes(asdict(words.survey(words, lexicon, captions)), config.attribute_name)
    yield from (f"Captions of {captions.name} {note}." for note in notes)


def _sheet(config: AnonymousConfig, lexicon: Lexicon, captioners: Sequence[Captions]) -> Sheet:
    """Of the images that every captioner has captions of, or a sample of them."""
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
    questions = caption_questions(config.attribute_name, tuple(lexicon.classes))
    return caption_sheet(kept, questions, seed=config.seed)


def _rated(config: AnonymousConfig, found: Anonymous, ratings: Ratings, lexicon: Lexicon) -> Rated:
    (question,) = found.sheet.questions
    images = [item.image for item in found.sheet.items]
    agreement = krippendorff_alpha(ratings.votes(question), images, level=config.level)
    words = TextOptions(config.contractions, config.text)
    named = {item.name: bool(lexicon.mentions(words.words(item.text))) for item in found.sheet.items}
    rows = measure_human_scores(ratings, question, found.classes, named, level=config.level)
    by_name = {row.captioner: row for row in rows}
    scores = [by_name[row.captioner] for row in found.captioners]
    people, left_out = _beside_people(config, scores)
    return Rated(
        raters=_answered(ratings, question),
        agreement=agreement,
        scores=scores,
        lexicon=check_lexicon(ratings, question, found.classes, named),
        people=people,
        left_out=left_out,
    )


def _answered(ratings: Ratings, question: Question) -> dict[str, int]:
    """Rater -> items answered."""
    given = [rater for of in ratings.answers[question.name].values() for rater in of]
    return {rater: given.count(rater) for rater in ratings.raters}


def _beside_people(config: AnonymousConfig, scores: Sequence[HumanScore]) -> tuple[list[PeopleRow], list[str]]:
    """The lexicon's share and every metric of the run against people's scores; and whom the two do not share."""
    human = {row.captioner: row.share.value for row in scores if row.share.captions}
    shares = {row.captioner: row.named.value for row in scores}
    found = [_people_row("lexicon", "share that names a class", shares, human, config.level)]
    if config.run is None:
        return found, []
    run = read_run(config.run)
    for (metric, value), of in _values(run).items():
        found.append(_people_row(metric, value, of, human, config.level))
    rows = {row.captioner for row in run.result.summaries}
    if not rows & human.keys():
        what = f"none of its captioners ({', '.join(sorted(rows))}) was rated ({', '.join(human)})"
        raise JudgeError(what, where=f"--run {config.run}", mend="name captioners as the run does: NAME=FILE")
    strangers = {
        "of the run were not rated": rows - human.keys(),
        "were rated, and are not in the run": human.keys() - rows,
    }
    return found, [f"Captioners that {why}: {', '.join(sorted(of))}." for why, of in strangers.items() if of]


def _values(run: SavedRun) -> dict[tuple[str, str], dict[str, float]]:
    """(metric and judge, which value) -> captioner -> value, of what has one."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in run.result.summaries:
        for name in ("amplification", "generated"):
            value = getattr(row, name)
            if value is not None and math.isfinite(value):
                found.setdefault((row.title, name), {})[row.captioner] = value
    return found


def _people_row(
    metric: str, value: str, values: Mapping[str, float], human: Mapping[str, float], level: float
) -> PeopleRow:
    both = [name for name in values if name in human]
    pairs = [values[name] for name in both], [human[name] for name in both]
    return PeopleRow(metric, value, correlate(*pairs, level=level))


def _write(found: Anonymous, config: AnonymousConfig, folder: Path) -> None:
    texts = {
        SUMMARY: anonymous_json(found),
        SETTINGS: config.to_yaml(),
        # Excel takes a table for UTF-8 if it begins so.
        SHEET: "\ufeff" + sheet_csv(found.sheet),
        KEY: key_csv(found.sheet),
        PAGE: rating_page(found.sheet, title=f"Rating: {found.attribute} in captions", lead=_lead(found), table=SHEET),
    }
    if found.rated:
        texts[SCORES] = human_scores_csv(found.rated)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")


def _lead(found: Anonymous) -> list[str]:
    task = (
        "Each caption describes a picture that you do not see. Answer from its words alone: would you call anyone "
        f"in it {' or '.join(found.classes)}, or can you not tell? Where there is nobody in it, you cannot."
    )
    return [
        task,
        "Go by your first impression. There is no right answer, and “cannot tell” is as good as any other.",
    ]


RATINGS = "rating-NAME.csv"


def command(config: AnonymousConfig) -> None:
    """How often captions name an attribute that cannot be seen, and a sheet for people to rate them.

    The protocol of AnonymousBench: captions of images in which nobody can tell the attribute. Leaves anonymous.json,
    anonymous.yaml, rating.html, rating.csv and rating_key.csv in --out; and human_scores.csv with --ratings.
    """
    with show_progress() as progress:
        found = measure_anonymous(config, progress=progress)
    show_anonymous(found, config.out)


def show_anonymous(found: Anonymous, out: Path, known: Mapping[str, float] | None = None) -> None:
    """Print what was measured, and where it lies; ``known``: captioner -> its true share, of simulated ones."""
    from judge.report.anonymous import (
        anonymous_notes,
        metric_table,
        naming_table,
        score_table,
        share_difference_table,
    )
    from judge.report.render import open_console, print_table, print_text
    from judge.report.table import how_many

    tables: list[Table[Any]] = [naming_table(found, known), share_difference_table(found)]
    if found.rated:
        tables += [score_table(found, found.rated), metric_table(found.rated)]
    for table in tables:
        if table.rows:
            print_table(table)
            say("")
    console = open_console()
    for line in anonymous_notes(found):
        print_text(f"NOTE: {line}", console)
    if not found.rated:
        (question,) = found.sheet.questions
        say(f"{how_many(len(found.sheet.items), 'caption')} to rate: open {out / PAGE}, or fill in {out / SHEET}")
        say(f"(its column '{question.name}': {', '.join(question.choices[:-1])} or {question.choices[-1]})")
        rated = out.with_name(f"{out.name}-rated")
        command = shlex.join(["judge", "anonymous", str(out / SETTINGS), "--ratings", RATINGS, "--out", str(rated)])
        say(f"Then, with the file that the page saves ({RATINGS}, or --ratings of each rater):")
        say(f"  {command}")
    else:
        say(f"People's scores, for judge evaluate --human-scores: {out / SCORES}")
    say(f"The results are in {out}")
