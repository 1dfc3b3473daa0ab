"""Where a captioner looked in plain pictures when it said a word of the attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from PIL import Image

from judge.attribution.checkpoints import WordViews
from judge.attribution.pictures import Explaining, Explanation
from judge.captioning.writer import Writer, Writing
from judge.judges.hf_models import Captioner, load_captioner
from judge.judges.hf_prompts import processing
from judge.masking.instances import Pixels
from judge.masking.masked_images import MaskedImages
from judge.text.lexicon import Lexicon
from judge.text.tokens import tokenize
from judge.types import Progress
from judge.utils.hub import quiet


@dataclass(frozen=True, slots=True)
class Said:
    """A word of the attribute in a caption that a captioner wrote.

    Attributes:
        caption: the caption.
        word: the lexicon's entry.
        class_: the class that it names.
        before: the tokens that the captioner wrote before it.
        token: the first of its own.
    """

    caption: str
    word: str
    class_: str
    before: tuple[int, ...]
    token: int


class ExplainedCaptioner:
    """A captioner, asked for captions and then for its reasons.

    Args:
        captioner: as it is loaded.
        lexicon: the attribute's words.
        device: to compute on.
        where: what users typed to name it, for messages.
    """

    def __init__(self, captioner: Captioner, lexicon: Lexicon, device: torch.device, where: str) -> None:
        self.captioner, self.lexicon = captioner, lexicon
        # Greedy, as captions are by default: each word is the most probable one after those before it.
        self.writer = Writer(captioner, Writing(), device)
        self.views = WordViews(captioner, device, where)

    def say(self, pixels: Pixels) -> Said | None:
        """The first word of the picture's caption that names a class; None where none does."""
        with quiet():
            with processing("picture"):
                asked = self.writer.ask(Image.fromarray(pixels))
            written = self.writer.tokens([asked])[0].tolist()
        if self.captioner.layout != "causal":
            begun = self.views.begun(pixels)
            written = written[len(begun) :] if written[: len(begun)] == begun else written
        caption = self._text(written)
        found = first_word(caption, self.lexicon)
        if found is None:
            return None
        start, word, class_ = found
        place = next(place for place in range(len(written)) if len(self._text(written[: place + 1])) > start)
        return Said(caption, word, class_, tuple(written[:place]), written[place])

    def _text(self, tokens: Sequence[int]) -> str:
        return " ".join(self.captioner.tokenizer.decode(tokens, skip_special_tokens=True).split())


def first_word(caption: str, lexicon: Lexicon) -> tuple[int, str, str] | None:
    """Where in a caption the first entry that names a class begins, the entry, and its class."""
    words = tokenize(caption)
    text, places, at = caption.lower(), [], 0
    for word in words:
        # A word that is spelt in another way there (an apostrophe's form) begins where the last one ended.
        at = max(at, text.find(word, at))
        places.append(at)
        at += len(word) if text.startswith(word, at) else 0
    named = ((places[start], " ".join(words[start:stop]), of) for start, stop, of in lexicon.find(words) if of)
    return next(named, None)


def explain_captions(
    model: str,
    images: Sequence[str],
    pictures: MaskedImages,
    lexicon: Lexicon,
    how: Explaining,
    *,
    device: torch.device,
    progress: Progress | None = None,
) -> Iterator[Explanation]:
    """Where a captioner looked when it said a word of the attribute; pictures of which it says none have no map.

    What is explained is the log-probability of the word's first token after the picture and the tokens before it.

    Args:
        model: folder of a checkpoint, or its name on the hub.
        images: ids of the pictures.
        pictures: as they are; nothing is hidden.
        lexicon: the attribute's words.
        how: maps are made.
        device: to compute on.
        progress: called with the pictures explained.

    Raises:
        JudgeError: no such captioner; a picture at fault; a family that a method cannot explain.
    """
    where = f"--model {model}"
    explained = ExplainedCaptioner(load_captioner(model, where=where), lexicon, device, where)
    for number, image in enumerate(images):
        if progress:
            progress("explaining words", number, len(images))
        pixels = pictures.read(image)
        said = explained.say(pixels)
        if said is None:
            continue
        view = explained.views.view(pixels, said.before, said.token)
        with torch.no_grad():
            value = float(view.scores(view.shown)[0, 0])
        for method, mass in how.maps(view, pixels, 0, image):
            yield Explanation(image, said.caption, said.word, value, method, mass)
