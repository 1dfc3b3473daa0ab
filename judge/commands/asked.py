"""What a trained judge is asked about: captions, masked as it learnt them, and the pictures that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judge.commands.pictures import RunPictures
from judge.commands.saved_judges import open_saved
from judge.config import MASKING, PredictConfig, RunConfig, make_config
from judge.corpus import refuse_unread
from judge.corpus.captions import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.masking.masked_images import MaskedImages
from judge.training.saved import Saved, sample_captions
from judge.types import Captions, Progress, Sample


@dataclass(frozen=True, slots=True)
class Asked:
    """A trained judge, and what it is asked about.

    Attributes:
        saved: what its file says.
        captions: as they were read.
        parts: what it reads, a list for each caption index, by image.
        pictures: what it sees, hidden as in training; None for a judge that sees none.
    """

    saved: Saved
    captions: Captions
    parts: Sequence[Sequence[Sample]]
    pictures: MaskedImages | None

    def notes(self, config: PredictConfig) -> list[str]:
        """What a user must know, a line each."""
        found = []
        if left_out := self.captions.empty + self.captions.refused:
            found.append(f"{left_out} captions are empty or refuse to describe; they are left out")
        if cleaned := self.captions.cleaned:
            found.append("captions were cleaned: " + ", ".join(f"{what} in {n:,}" for what, n in cleaned.items()))
        trained = self.saved.masking.get("detector")
        if self.saved.sees and trained and "detector" in config.model_fields_set and config.detector != trained:
            found.append(f"the judge learnt from pictures that detector '{trained}' masked, not '{config.detector}'")
        found.append("these are guesses from stereotypes, to study captions with: no judgement of the people in images")
        return found


def read_asked(config: PredictConfig, progress: Progress | None = None) -> Asked:
    """The judge that settings name, and what they ask it about.

    Raises:
        JudgeError: anything that the user can mend.
    """
    saved = open_saved(config)
    if saved.preparation is None:
        what, mend = "does not say what hid the attribute from its judge", "train the judge again, with judge train"
        raise JudgeError(what, where=f"--judge-weights {config.judge_weights}", mend=mend)
    reading = ReadOptions(config.split, columns=config.columns, several=True, where=config.where, alone=True)
    captions = read_captions(config.captions, reading, side="generated")
    refuse_unread(config.columns, [captions])
    parts = sample_captions(captions.by_image, saved)
    return Asked(saved, captions, parts, _pictures(config, saved, sorted(captions.by_image), progress))


def _pictures(
    config: PredictConfig, saved: Saved, images: Sequence[str], progress: Progress | None
) -> MaskedImages | None:
    """The pictures, hidden as in training; None for a judge that sees none."""
    if not saved.sees:
        return None
    if config.images is None:
        what, mend = f"judge '{saved.judge}' sees pictures, and there are none", "give the folder of pictures"
        raise JudgeError(what, where="--images", mend=mend)
    own = ("images", "instances", "weights", "trust_weights", "cache", "max_pixels", "person_categories", "class_names")
    # A few new images may show nobody.
    given = {name: getattr(config, name) for name in own} | {"human": config.captions, "allow_unmasked": True}
    trained = {name: value for name, value in saved.masking.items() if name in MASKING}
    if "detector" in config.model_fields_set:
        trained["detector"] = config.detector
    # Boxes of things are for judges that ask for them.
    judge = {"judge": [saved.judge]} if saved.blueprint.regions else {}
    settings = make_config({**trained, **given, **judge}, RunConfig, where=f"--judge-weights {config.judge_weights}")
    return RunPictures(settings, progress).hidden(images)
