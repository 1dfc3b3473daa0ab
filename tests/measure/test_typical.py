"""The typical person of a run: whose captions it has, what is compared with it, and which verdicts follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import fault_of, known, read_json

from judge import evaluate
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.world import Captioner, Parameters
from judge.corpus import Corpus
from judge.corpus.attributes import multiply_labels
from judge.evidence.typical import TYPICAL, with_typical
from judge.measure import Plan, Result, lay_out
from judge.report.saved_run import read_run
from judge.report.warnings import warnings
from judge.text.lexicon import Lexicons, load_lexicon, mask
from judge.text.tokens import tokenize
from judge.types import Captions, Labels, Words

QUICK: dict[str, Any] = {"judge": "linear", "folds": 3, "chance": 0, "resamples": 100, "workers": 1}
GENDER = load_lexicon("gender")


def masked(caption: str) -> Words:
    return mask(tokenize(caption), GENDER)


def measured(corpus: Corpus, **settings: Any) -> Result:
    return evaluate(corpus, **QUICK | settings)


@pytest.fixture(scope="module")
def world() -> World:
    """Four human captions an image; judges of these learn something from few images."""
    drawn = make_world(240, seed=3, parameters=Parameters(association=0.8, mention=0.9))
    return replace(drawn, human=replace(drawn.human, by_image={i: of[:4] for i, of in drawn.human.by_image.items()}))


@pytest.fixture(scope="module")
def much(world: World) -> Captions:
    """So much that 240 images tell it from a typical person."""
    return simulate(world, name="much", captioner=Captioner(stereotype=1.0))


@pytest.fixture(scope="module")
def second(world: World) -> Corpus:
    """The captioner is the second most typical caption, which the human side lacks."""
    first = with_typical(Corpus(world.human, (), world.labels), masked)
    (typical,) = first.generated
    found = with_typical(replace(first, generated=()), masked)
    rest = {image: (*typical.by_image[image], *of) for image, of in found.human.by_image.items()}
    captioner = replace(found.generated[0], name="second")
    return Corpus(replace(world.human, by_image=rest), (captioner,), world.labels)


@pytest.fixture(scope="module")
def run(second: Corpus, much: Captions, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    out = tmp_path_factory.mktemp("typical") / "run"
    corpus = replace(second, generated=(*second.generated, much))
    return measured(corpus, metrics="lic,ratio", refits=10, out=out), out


def test_who_stereotypes_amplifies_and_who_is_typical_does_not(run: tuple[Result, Path]) -> None:
    result, _ = run
    found = {
        (row.captioner, row.metric.name): of for row, of in zip(result.summaries, result.conclusions(), strict=True)
    }
    assert list(dict.fromkeys(name for name, _ in found)) == ["second", "much", TYPICAL]
    assert found["much", "lic"].verdict == "amplifies"
    assert {of.verdict for (name, _), of in found.items() if name == "second"} <= {
        "like a typical person", "cannot tell", "mitigates"
    }  # fmt: skip
    assert {(of.p_holm, of.verdict, of.beyond) for (name, _), of in found.items() if name == TYPICAL} == {(None,) * 3}
    values = {row.key[:2]: known(row.amplification) for row in result.summaries}
    for name in ("second", "much"):
        beyond = known(found[name, "lic"].beyond)
        assert beyond.paired
        assert beyond.value == pytest.approx(values[name, "lic"] - values[TYPICAL, "lic"])
    # Differences are between captioners.
    assert {(row.first, row.second) for row in result.differences()} == {("second", "much")}


def test_a_captioner_that_says_more_meets_a_person_who_does(world: World) -> None:
    """Two human captions joined exceed human captions, and not a typical person of as many content words."""
    told = {image: [text.rstrip(" .") for text in of] for image, of in world.human.by_image.items()}
    more, whole = (
        Captions(name, {image: (" and ".join(of[:number]),) for image, of in told.items()})
        for name, number in (("more", 2), ("whole", 4))
    )
    # More than all human captions say together.
    rest = "xa xb xc xd xe xf xg xh"
    endless = Captions("endless", {image: (f"{' and '.join(of)}, {rest}",) for image, of in told.items()})
    corpus = Corpus(world.human, (more, whole, endless), world.labels)
    result = measured(corpus, metrics="lic", refits=10)
    entries = result.run["captioners"]
    words = {name: entry["text"]["generated"]["words"] for name, entry in entries.items()}
    people = {name: entry["longer"].get("words_read", "") for name, entry in entries.items() if "longer" in entry}
    assert people.pop("endless") == ""
    assert result.people == {TYPICAL, *people.values()}
    assert len(result.people) == 3
    lines = {row.captioner: of for row, of in zip(result.summaries, result.conclusions(), strict=True)}
    assert result.void.keys() == {("endless", "lic", "linear")}
    for name, person in people.items():
        beyond = known(lines[name].beyond)
        assert beyond.second == person
        assert words[name] <= words[beyond.second] < 1.15 * words[name] or name == "whole"
        assert lines[name].verdict in {"like a typical person", "cannot tell"}


def test_the_longer_person_is_for_metrics_that_length_raises(world: World) -> None:
    """Ratio compares with the typical person; judges read sentences, and counted metrics the whole caption."""
    told = {image: [f"{text.rstrip(' .')}." for text in of] for image, of in world.human.by_image.items()}
    joined = Captions("joined", {image: (" and ".join(of[:2]).replace(".", ""),) for image, of in told.items()})
    many = Captions("many", {image: (" ".join(of[:3]),) for image, of in told.items()})
    corpus = Corpus(world.human, (joined,), world.labels)
    alone = measured(corpus, metrics="lic,ratio,dba-o", refits=2)
    longer = alone.run["captioners"]["joined"]["longer"]["words"]
    person_of = {metric: person for (_, metric, _), person in alone.typical.items()}
    assert person_of == {"lic": longer, "ratio": TYPICAL, "dba-o": longer}
    # Nobody's LIC is compared with the typical person here, who is no captioner all the same.
    assert {row.captioner for row in alone.of_captioners} == {"joined"}
    tested = [
        (row.p_value, of.p_holm) for row, of in zip(alone.summaries, alone.conclusions(), strict=True) if of.p_holm
    ]
    assert len(tested) == 3
    assert all(p == corrected for p, corrected in tested)
    assert not alone.differences()
    assert not any("typical person of up to" in note for note in warnings(alone))
    # Where the longer person cannot be measured, the verdict is withheld.
    entries = {**alone.run["captioners"], longer: {**alone.run["captioners"][longer], "reads": {}}}
    without = replace(alone, run={**alone.run, "captioners": entries})
    assert without.void.keys() == {("joined", "lic", "linear"), ("joined", "dba-o", "counted")}
    assert not alone.void
    result = measured(replace(corpus, generated=(many,)), metrics="lic,dba-o", refits=0)
    entries = result.run["captioners"]
    assert entries["many"]["longer"].keys() == {"words"}
    person = entries["many"]["longer"]["words"]
    assert result.typical == {("many", "lic", "linear"): TYPICAL, ("many", "dba-o", "counted"): person}
    assert [row.metric.name for row in result.summaries if row.captioner == person] == ["dba-o"]


def test_longer_persons_of_rare_classes_and_of_marks(world: World) -> None:
    """Classes of a product that are left out have a person all the same, and so do captions of marks alone."""
    images = [*world.human.by_image]
    human = replace(world.human, by_image={**world.human.by_image, images[-1]: ("...", "!", "?")})
    told = {image: (" and ".join(text.rstrip(" .") for text in of[:3]),) for image, of in world.human.by_image.items()}
    kinds = {image: "rare" if n < 4 else ("one", "other")[n % 2] for n, image in enumerate(images)}
    known_labels = Labels("kind", ("one", "other", "rare"), kinds, "kinds.csv")
    corpus = Corpus(human, (Captions("joined", told),), multiply_labels([world.labels, known_labels]))
    work = lay_out(corpus, Plan(metrics=("lic",)), Lexicons(None, None))
    person = work.longer["joined"]["words_read"]
    (of_person,) = (of for of in work.corpus.generated if of.name == person)
    assert of_person.by_image.keys() == {*images}
    assert of_person.by_image[images[-1]] == (". . .",)
    (classes,) = {frozenset(job.evidence.classes.values()) for job in work.jobs}
    assert not any("rare" in name for name in classes)


def test_a_mitigation_may_be_wrong_captions(run: tuple[Result, Path]) -> None:
    """As a warning says, where there is such a verdict of judges."""
    result, _ = run
    assert not any(note.startswith("Mitigates") for note in warnings(result))
    rows = [
        replace(row, amplification=-known(row.amplification)) if row.captioner == "much" else row
        for row in result.summaries
    ]
    below = replace(result, summaries=tuple(rows))
    (note,) = (of for of in warnings(below) if of.startswith("Mitigates"))
    assert note.startswith("Mitigates, LIC (linear) of much: captions that are wrong, or say little,")


def test_files_give_the_same_conclusions(run: tuple[Result, Path]) -> None:
    result, out = run
    saved = read_run(out).result
    assert saved.conclusions() == result.conclusions()
    assert saved.table(all=True).equals(result.table(all=True))
    row = result.table(all=True).set_index(["captioner", "metric"]).loc["much", "lic"]
    written = next(of for of in read_json(out / "metrics.json")["results"] if of["metric"] == "lic" and of["beyond"])
    assert written["captioner"] == "second"
    assert written["beyond"].keys() == {
        "second", "value", "ci", "standard_error", "p_value", "p_holm", "images_left_out"
    }  # fmt: skip
    assert row["beyond_low"] < row["beyond"] < row["beyond_high"]
    assert row["beyond_p"] <= row["beyond_p_holm"] < 0.05


def test_its_captions_do_not_depend_on_the_captioners(world: World, much: Captions) -> None:
    """They are of the images that a captioner describes, and the others of these are the human side."""
    few = replace(much, by_image=dict(list(much.by_image.items())[20:]))
    lexicons = Lexicons(GENDER, None)
    whole, part = (lay_out(Corpus(world.human, (of,), world.labels), Plan(), lexicons).corpus for of in (much, few))
    typical, of_part = (of.generated[-1].by_image for of in (whole, part))
    assert of_part == {image: typical[image] for image in few.by_image}
    for image, (caption,) in typical.items():
        written = list(world.human.by_image[image])
        written.remove(caption)
        assert whole.human.by_image[image] == tuple(written)
    assert whole.human == part.human
    # Labels come from all human captions, the typical one among them.
    derived = [
        lay_out(Corpus(world.human, (much,), None), Plan(typical=typical), lexicons).truth.labels
        for typical in (True, False)
    ]
    assert derived[0] == derived[1]


@pytest.mark.parametrize("short", [24, 25])
def test_nine_in_ten_images_need_three_captions(world: World, much: Captions, short: int) -> None:
    """Of 240 images 24 or 25 have two: on 216 images the typical person is compared, on 215 there is none."""
    human = {
        image: of[: 2 if place < short else 4] for place, (image, of) in enumerate(sorted(world.human.by_image.items()))
    }
    result = measured(Corpus(replace(world.human, by_image=human), (much,), world.labels), metrics="lic", refits=5)
    row, said = result.summaries[0], result.conclusions()[0]
    assert row.images == 240
    notes = [note for note in warnings(result) if "typical person" in note]
    if short == 24:
        assert [(of.captioner, of.images) for of in result.summaries] == [("much", 240), (TYPICAL, 216)]
        assert (known(said.beyond).left_out, said.verdict, notes) == (24, "amplifies", [])
    else:
        assert [of.captioner for of in result.summaries] == ["much"]
        assert (said.beyond, said.verdict) == (None, "above human captions")
        assert [note.partition(". ")[0] for note in notes] == [
            "No typical person for LIC (linear) of much: 215 of 240 images have 3 human captions or more"
        ]


def test_when_there_is_one(world: World, much: Captions) -> None:
    corpus, lexicons = Corpus(world.human, (much,), world.labels), Lexicons(GENDER, None)
    for plan, reason in (
        (Plan(), ""),
        (Plan(protocol="paper", typical=True), ""),
        (Plan(metrics=("lic",), judges=("self",)), ""),  # LIC is measured with a judge of text.
        (Plan(protocol="paper"), "it is off under protocol paper"),
        (Plan(typical=False), "it was left out"),
    ):
        work = lay_out(corpus, plan, lexicons)
        assert {*work.without_typical.values()} == {reason} - {""}
        assert [of.name for of in work.corpus.generated] == ["much", *([] if reason else [TYPICAL])]
        assert {job.evidence.captioner for job in work.jobs} == {of.name for of in work.corpus.generated}
    named = replace(corpus, generated=(replace(much, name=TYPICAL),))
    for typical in (None, False):
        assert f"a captioner is called '{TYPICAL}'" in fault_of(lay_out, named, Plan(typical=typical), lexicons)


def spoken(world: World, captioner: Captions, *captions: str) -> Corpus:
    """A corpus in which these are the human captions of each image; CLASS names its class, BUS a vehicle."""
    words = {"female": "woman", "male": "man"}
    human = {
        image: tuple(
            caption.replace("CLASS", words[world.labels.by_image[image]]).replace("BUS", ("bus", "train")[place % 2])
            for caption in captions
        )
        for place, image in enumerate(world.human.by_image)
    }
    return Corpus(replace(world.human, by_image=human), (captioner,), world.labels)


@pytest.mark.parametrize(
    ("captions", "missing", "why"),
    [
        (("a CLASS on a red BUS", "a red cat", "a BUS"), {"lic", "error", "u-ta"}, "one class: none"),
        (("a BUS in town", "a BUS in a town", "a BUS", "a CLASS on a BUS"), {"u-ta"}, "one class: none"),
    ],
    ids=["human captions name no class without its own", "its own name no class"],
)
def test_a_run_that_is_possible_without_it_goes_on(
    world: World, much: Captions, captions: tuple[str, ...], missing: set[str], why: str
) -> None:
    plan = Plan(metrics=("lic", "error", "u-ta"), judges=("linear",))
    corpus, lexicons = spoken(world, much, *captions), Lexicons(GENDER, load_lexicon("coco-objects"))
    work = lay_out(corpus, plan, lexicons)
    assert {metric for metric, _ in work.without_typical} == missing
    assert all(why in reason for reason in work.without_typical.values())
    assert (TYPICAL in {of.name for of in work.corpus.generated}) == (missing == {"u-ta"})
    alone = lay_out(corpus, replace(plan, typical=False), lexicons)
    mine = [[job.evidence.digest() for job in of.jobs if job.evidence.captioner == "much"] for of in (work, alone)]
    assert (mine[0] == mine[1]) == (missing != {"u-ta"})


def test_a_class_of_which_it_has_too_few_images_for_halves(world: World, much: Captions) -> None:
    """Ten folds of halves need 20: of 20 images of a class one has two human captions alone."""
    images = sorted(world.human.by_image, key=lambda image: (world.labels.by_image[image], image))
    female = sum(world.labels.by_image[image] == "female" for image in images)
    described = {image: much.by_image[image] for image in images[female - 20 :]}
    human = dict(world.human.by_image) | {images[female - 1]: world.human.by_image[images[female - 1]][:2]}
    corpus = Corpus(replace(world.human, by_image=human), (replace(much, by_image=described),), world.labels)
    result = measured(corpus, metrics="lic,error", folds=10, refits=2)
    assert [row.key[:2] for row in result.summaries] == [("much", "lic"), ("much", "error"), (TYPICAL, "error")]
    entry = result.run["captioners"]["much"]
    assert entry["without_typical"] == {
        "lic": {"linear": "19 images of class 'female', and refits on halves of the images need 20"}
    }
