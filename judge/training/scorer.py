"""A trained judge as a scorer: the probability of each class, of captions in memory. It is also a reward function.

It leaves the random state, Accelerate's state and torch's settings of the process alone: a training may call it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from judge.errors import JudgeError, require, some
from judge.evidence import Preparation
from judge.judges import Judge as Answering
from judge.masking.masked_images import MaskedImages
from judge.text.cleaning import clean
from judge.training.judge_file import Saved, open_judge, perceive, read_saved
from judge.types import FloatArray, Sample
from judge.utils.files import from_home
from judge.utils.hub import advice_on_path, explaining, fetch
from judge.utils.parallel import choose_device
from judge.utils.reading import named_alike

if TYPE_CHECKING:
    import torch
    from PIL import Image

WEIGHTS = "judge.safetensors"
_HUB = re.compile(r"(hf://)?\w[\w.-]*/[\w.-]+(@\w+)?")


@dataclass(frozen=True)
class _Here:
    """The part of an Accelerator that predictions need: this process and one device."""

    device: torch.device
    precision: str
    num_processes: int = 1
    process_index: int = 0

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of training, as :func:`~judge.training.judge_file.restore` has it: no fp16 on CPUs."""
        import torch

        kinds = {"bf16": torch.bfloat16} | ({} if self.device.type == "cpu" else {"fp16": torch.float16})
        kind = kinds.get(self.precision)
        return torch.autocast(self.device.type, kind) if kind else nullcontext()


class Judge:
    """A trained judge of captions, and of images with hidden people.

    Use :meth:`load`. Words that reveal the attribute are hidden as in training, so captions are given as written.

    Attributes:
        saved: what its file says.
        preparation: from captions to the words that it reads.
        classes: the classes, in the order of the columns of :meth:`probabilities`.
    """

    def __init__(self, saved: Saved, device: str | torch.device | None = None) -> None:
        self.preparation = check_reads(saved)
        self.saved, self.classes, self.device = saved, saved.target.classes, device
        self._opened: Answering | None = None

    def __repr__(self) -> str:
        return f"Judge({self.saved.judge!r}, {', '.join(self.classes)})"

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, base: str | None = None, device: str | torch.device | None = None
    ) -> Self:
        """Open a trained judge.

        Args:
            path: a file of ``judge train``, a folder of ``judge export``, or the name of such a folder on the hub.
            base: the checkpoint that it started from, if that has moved.
            device: such as "cuda:1"; by default that of the machine, a GPU if there is one.

        Raises:
            JudgeError: there is no such judge; its file is damaged; it reads no captions.
        """
        return cls(find_saved(os.fspath(path), base=base), device)

    def probabilities(
        self,
        captions: Sequence[str],
        images: Sequence[str | os.PathLike[str] | Image.Image] | None = None,
        *,
        masked: bool = False,
    ) -> FloatArray:
        """The probability of each class, [N, classes], rows in the order of ``captions``.

        A judge of sentences gives the mean over a caption's sentences. An empty caption tells it nothing.

        Args:
            captions: N texts.
            images: N images, files or of Pillow, for a judge that sees them.
            masked: whether people are hidden in ``images`` as they were in its training (``judge mask`` does this).

        Raises:
            JudgeError: images absent, of another number, not masked, or unreadable; memory ran out.
        """
        self._check(captions, images, masked)
        prepared = self.preparation
        samples, owners = list[Sample](), list[int]()
        for place, caption in enumerate(captions):
            for index, text in enumerate(prepared.texts(clean(caption)[0]) or [""]):
                samples.append(perceive(self.saved, f"{place}", index, prepared.words(text)))
                owners.append(place)
        found = np.zeros((len(captions), len(self.classes)))
        if samples:
            with self._judge(samples, images) as judge:
                np.add.at(found, owners, judge.predict(samples).probabilities)
            found /= np.bincount(owners)[:, None]
        return found

    def score(
        self,
        captions: Sequence[str],
        labels: Sequence[str],
        images: Sequence[str | os.PathLike[str] | Image.Image] | None = None,
        *,
        masked: bool = False,
    ) -> FloatArray:
        """The probability of each caption's own class, [N], of the N names ``labels``: how much the caption gives away.

        Raises:
            JudgeError: another number of labels, or one that is no class; as :meth:`probabilities`, whose arguments
                the others are.
        """
        self._check(captions, images, masked)
        if len(labels) != len(captions):
            raise JudgeError(f"{len(captions)} captions and {len(labels)} labels", mend="give a label for each caption")
        if unknown := sorted({*labels} - {*self.classes}):
            raise JudgeError(f"unknown class {some(unknown)}", mend=f"classes are {some(self.classes)}")
        rows = self.probabilities(captions, images, masked=masked)
        return rows[np.arange(len(rows)), [self.classes.index(label) for label in labels]]

    def _check(self, captions: Sequence[str], images: Sequence[Any] | None, masked: bool) -> None:
        """Refuse what is no list of texts, and images that are not what it learnt from."""
        name, saved = self.saved.judge, self.saved
        if isinstance(captions, str) or not all(isinstance(caption, str) for caption in captions):
            raise JudgeError("captions are not a list of texts", mend="give a list with a text for each caption")
        if not saved.sees:
            return
        if images is None or len(images) != len(captions):
            what = f"judge '{name}' sees images: {len(captions)} captions and {len(images or ())} images"
            raise JudgeError(what, mend="give an image for each caption")
        if saved.masking.get("mask", "none") != "none" and not masked:
            what = f"judge '{name}' learnt from images with people hidden (mask {saved.masking['mask']})"
            raise JudgeError(what, mend="give images that judge mask made, and masked=True")
        if saved.blueprint.regions:
            raise JudgeError(f"judge '{name}' needs the boxes of a detector", mend="use judge predict")

    @contextmanager
    def _judge(self, samples: Sequence[Sample], images: Sequence[Any] | None) -> Iterator[Answering]:
        """The judge: opened once, or for these samples if frozen networks read them or it sees images."""
        if self._opened:
            yield self._opened
            return
        with ExitStack() as stack:
            accelerator, shown = None, None
            features = Path(stack.enter_context(TemporaryDirectory()))
            if self.saved.recipe:
                import torch

                stack.enter_context(torch.random.fork_rng())
                device = torch.device(self.device) if self.device else choose_device(None)
                accelerator = _Here(device, self.saved.precision)
            if self.saved.sees and images is not None:
                shown = _in_folder(images, features)
            judge, _ = open_judge(self.saved, samples, features=features, images=shown, accelerator=accelerator)
            given = getattr(judge, "materials", None)
            if not self.saved.sees and (given is None or (given.images is None and given.features is None)):
                self._opened = judge
            yield judge


def _in_folder(images: Sequence[Any], folder: Path) -> MaskedImages:
    """Images, by the number of their caption: copied to ``folder``, or written there without loss."""
    from PIL import ImageOps

    names = {f"{place}": f"{place}.png" for place in range(len(images))}
    for name, image in zip(names.values(), images, strict=True):
        if isinstance(image, str | os.PathLike):
            with explaining("cannot be read", f"image {image}", "check the path"):
                shutil.copyfile(from_home(os.fspath(image)), folder / name)
        else:
            ImageOps.exif_transpose(image).convert("RGB").save(folder / name)  # A file is turned likewise.
    return MaskedImages(folder, names)


def find_saved(given: str, *, base: str | None = None, where: str = "") -> Saved:
    """A trained judge: a file, a folder of ``judge export``, or one on the hub (USER/NAME, hf://USER/NAME@REVISION)."""
    path, where = from_home(given), where or f"--judge-weights {given}"
    advice = "" if given.startswith("hf://") else advice_on_path(given)
    if not path.exists() and _HUB.fullmatch(given) and not advice:
        path = fetch(given.removeprefix("hf://"), where)
    if path.is_dir():
        folder, path = path, path / WEIGHTS
        if not path.is_file():
            mend = "name a NAME.weights.safetensors in it; judges.json says which is whose"
            if not any(folder.glob("*.weights.safetensors")):
                mend = "give the folder that judge export made, or a NAME.weights.safetensors of judge train"
            raise JudgeError(f"holds no {WEIGHTS}, as judge export writes it", where=where, mend=mend)
    elif not path.is_file():
        raise JudgeError("no such file or folder", where=where, mend=advice or named_alike(path))
    saved = read_saved(path)
    if saved.recipe or saved.sees:
        require("vision", "torch", "accelerate")
    # The base of a merged judge is the checkpoint that lies beside it.
    merged = path.name == WEIGHTS and (path.parent / "config.json").is_file()
    base = base or (str(path.parent) if merged else None)
    return saved.moved(base) if base else saved


def check_reads(saved: Saved) -> Preparation:
    """From captions to the words that a judge reads; one that reads annotations is refused."""
    if saved.preparation is not None:
        return saved.preparation
    what, mend = "does not say what hid the attribute from its judge", "train the judge again, with judge train"
    if saved.data.get("captioner"):
        what = "its judge reads annotations (metric u), not captions"
        mend = "give the file of a judge that reads captions"
    raise JudgeError(what, where=f"--judge-weights {saved.path}", mend=mend)
