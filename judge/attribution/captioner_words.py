"""Attribution maps of the words of the attribute that a captioner writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from judge.attribution.captioner_views import CheckpointViews
from judge.attribution.maps import ImageExplanation, MapSettings, View
from judge.captioning import Writer, Writing
from judge.judges.hf_models import PIXELS, Captioner, load_captioner
from judge.judges.hf_prompts import Prompts, go_on, lay_out, processing, usual_prompt
from judge.masking.instances import Pixels
from judge.masking.masked_images import MaskedImages
from judge.text.lexicon import Lexicon
from judge.text.tokens import tokenize
from judge.types import Progress
from judge.utils.hub import quiet


@dataclass(frozen=True, slots=True)
class AttributeWord:
    """A word of the attribute in a caption that a captioner wrote.

    Attributes:
        caption: the caption.
        word: the lexicon's entry.
        before: the tokens that the captioner wrote before it.
        token: the word's first token.
    """

    caption: str
    word: str
    before: tuple[int, ...]
    token: int


class ExplainedCaptioner:
    """A captioner that writes captions of images, and is a function of an image for each of their words.

    Args:
        captioner: just loaded.
        lexicon: the attribute's words.
        device, where: as for :class:`~judge.attribution.captioner_views.CheckpointViews`.
    """

    def __init__(self, captioner: Captioner, lexicon: Lexicon, device: torch.device, where: str) -> None:
        self.captioner, self.lexicon = captioner, lexicon
        # Greedy decoding: each word is the most probable one after the previous ones.
        self.writer = Writer(captioner, Writing(), device)
        self.views = CheckpointViews(captioner, device, where)
        # Florence-2's prompt goes to its encoder.
        self.prompt = "" if captioner.layout == "decoder" else usual_prompt(captioner)

    def write(self, pixels: Pixels) -> AttributeWord | None:
        """The first word of the image's caption that names a class; None if no word does."""
        with quiet():
            with processing("image"):
                given = self.writer.prepare(Image.fromarray(pixels))
            written = self.writer.tokens([given])[0].tolist()
        if self.captioner.layout != "causal":
            begun = next(iter(self._prompts(pixels).rows[0].values()))
            written = written[len(begun) :] if written[: len(begun)] == begun else written
        caption = self._text(written)
        found = first_word(caption, self.lexicon)
        if found is None:
            return None
        start, word, _ = found
        place = next(place for place in range(len(written)) if len(self._text(written[: place + 1])) > start)
        return AttributeWord(caption, word, tuple(written[:place]), written[place])

    def view(self, pixels: Pixels, before: Sequence[int], token: int) -> View:
        """The score, [N, 1], is the natural log-probability of a token after those ``before`` it."""
        shared, (row,) = self._prompts(pixels)
        text = {
            name: torch.tensor([[*values, *go_on(self.captioner.architecture, name, tuple(before))]])
            for name, values in row.items()
        }
        given = {name: value.to(self.views.device) for name, value in {**shared, **text}.items()}

        def score(shown: Tensor) -> Tensor:
            logits: Tensor = self.captioner.model(**{**given, PIXELS: shown}).logits[:, -1]
            return logits.float().log_softmax(dim=-1)[:, token, None]

        return self.views.make(pixels, shared, score)

    def _prompts(self, pixels: Pixels) -> Prompts:
        with processing("image"):
            return lay_out(self.captioner, [Image.fromarray(pixels)], [self.prompt])

    def _text(self, tokens: Sequence[int]) -> str:
        return " ".join(self.captioner.tokenizer.decode(tokens, skip_special_tokens=True).split())


def first_word(caption: str, lexicon: Lexicon) -> tuple[int, str, str] | None:
    """The first entry of the lexicon in a caption that names a class: its position, the entry, and its class."""
    words = tokenize(caption)
    text, places, at = caption.lower(), [], 0
    for word in words:
        # A word with another spelling in the caption (form of the apostrophe) begins where the last one ended.
        at = max(at, text.find(word, at))
        places.append(at)
        at += len(word) if text.startswith(word, at) else 0
    named = ((places[start], " ".join(words[start:stop]), of) for start, stop, of in lexicon.find(words) if of)
    return next(named, None)


def explain_captions(
    model: str,
    ids: Sequence[str],
    images: MaskedImages,
    lexicon: Lexicon,
    settings: MapSettings,
    *,
    device: torch.device,
    progress: Progress | None = None,
) -> Iterator[ImageExplanation]:
    """Maps of the first word of the attribute in the caption of each image; images without such a word have no map.

    They explain the log-probability of the word's first token, given the image and the tokens before it.

    Args:
        model: folder of a checkpoint, or its name on the hub.
        ids: ids of the images to explain.
        images: with nothing hidden.
        lexicon: the attribute's words.
        settings: how maps are made.
        device: to compute on.
        progress: called with the number of images explained.

    Raises:
        JudgeError: no such captioner; an unusable image; a family that a method cannot explain.
    """
    where = f"--model {model}"
    explained = ExplainedCaptioner(load_captioner(model, where=where), lexicon, device, where)
    for number, image in enumerate(ids):
        if progress:
            progress("explaining words", number, len(ids))
        pixels = images.read(image)
        word = explained.write(pixels)
        if word is None:
            continue
        view = explained.view(pixels, word.before, word.token)
        with torch.no_grad():
            value = float(view.scores(view.shown)[0, 0])
        for method, mass in settings.maps(view, pixels, 0, image):
            yield ImageExplanation(image, word.caption, word.word, value, method, mass)
