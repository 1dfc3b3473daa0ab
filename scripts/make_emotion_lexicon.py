"""Write the lexicon "emotion" again: words that name ArtEmis's emotions, and sentiment words of VADER's by a rule.

``python scripts/make_emotion_lexicon.py judge/text/lexicons/emotion.yaml``; needs ``pip install vaderSentiment``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from textwrap import fill

import typer

from judge.utils.files import write_whole

# Classes as ArtEmis writes them; of each the forms of its name, and of "fear" what has no other form. "content" is in:
# who writes of a feeling writes "content", and hiding the noun costs little.
CLASSES: Mapping[str, str] = {
    "amusement": "amuse amused amusedly amusement amusements amuses amusing amusingly",
    "awe": "awe awed awes awesome awesomely awesomeness awestricken awestruck",
    "contentment": "content contented contentedly contentedness contentment contentments",
    "excitement": "excitable excite excited excitedly excitement excitements excites exciting excitingly",
    "anger": "anger angered angering angers angrier angriest angrily angriness angry",
    "disgust": "disgust disgusted disgustedly disgustful disgusting disgustingly disgusts",
    "fear": "afraid fear feared fearful fearfully fearfulness fearing fears fearsome fearsomely",
    "sadness": "sad sadden saddened saddening saddens sadder saddest sadly sadness sadnesses",
    "something else": "",
}
# Mean valence from -4 to 4, of ten raters: 1 is "slightly". Below it are "gravel", "grey", "easel", "impressionism",
# "heron" and "freeway", on which raters hardly agree that they say a feeling at all.
LEAST = 1.0
SPELLINGS = {"something else": ["something-else", "something_else", "somethingelse", "other"]}


def sentiment_words(lines: Iterable[str], *, least: float = LEAST) -> set[str]:
    """Single words of VADER's lexicon (word, mean, ..., by tabs): letters a to z, |mean| of ``least`` or more."""
    rows = (line.split("\t") for line in lines if line.strip())
    return {word for word, mean, *_ in rows if re.fullmatch("[a-z]+", word) and abs(float(mean)) >= least}


def read_vader() -> tuple[list[str], str, str]:
    """The lines of the lexicon in the package vaderSentiment, the package's version and its licence."""
    lines = (files("vaderSentiment") / "vader_lexicon.txt").read_text(encoding="utf-8").splitlines()
    package = distribution("vaderSentiment")
    (licence,) = [file for file in package.files or () if file.name.startswith("LICENSE")]
    return lines, package.version, licence.read_text(encoding="utf-8")


def lexicon_text(lines: Iterable[str], version: str, licence: str) -> str:
    """The lexicon as YAML."""
    named = {word for words in CLASSES.values() for word in words.split()}
    hidden = sorted(sentiment_words(lines) - named)
    source = "this project's own word forms of ArtEmis's nine emotions; hidden_only: VADER's lexicon"
    head = [
        f"# source: {source} (Hutto and Gilbert, ICWSM 2014), MIT licence (below)",
        "#",
        f"# hidden_only, {len(hidden):,} words: the single words (letters a to z) of vaderSentiment {version} whose",
        f"# mean valence is {LEAST:g} or more either way (of 4; 1 is 'slightly'), without those of a class here.",
        "# Written by scripts/make_emotion_lexicon.py, which says how the threshold was chosen. VADER's licence:",
        "#",
        *(f"# {line}".rstrip() for line in licence.strip().splitlines()),
    ]
    classes = [_entry(f"  {name}", words.split()) for name, words in CLASSES.items()]
    spellings = [_entry(f"  {name}", words) for name, words in SPELLINGS.items()]
    body = ["name: emotion", 'token: "<emotion>"', "classes:", *classes, _entry("hidden_only", hidden)]
    return "\n".join([*head, *body, "spellings:", *spellings]) + "\n"


def _entry(name: str, words: Iterable[str]) -> str:
    # YAML reads some bare words as true and false.
    listed = ", ".join(f'"{word}"' if word in {"no", "yes", "on", "off", "true", "false"} else word for word in words)
    return fill(f"{name}: [{listed}]", 120, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)


def main(out: Path) -> None:
    """Write the YAML file."""
    write_whole(out, lexicon_text(*read_vader()).encode())


if __name__ == "__main__":
    typer.run(main)
