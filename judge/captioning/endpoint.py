"""Captions by a server that speaks OpenAI's protocol: vLLM, SGLang, ``transformers serve``, or a hosted one."""

import base64
import os
from collections.abc import Sequence

from PIL.Image import Image

from judge.captioning.writing import Caption, Writing, in_batches
from judge.errors import JudgeError
from judge.judges.hf_prompts import DESCRIBE
from judge.masking.images import encode
from judge.masking.masked_images import MaskedImages
from judge.utils.hub import first_line

KEY = "OPENAI_API_KEY"
"""Environment variable of the key; servers of one's own need none."""
_RETRIES = 6
_SECONDS = 600.0


class EndpointError(JudgeError):
    """The server answers no request: a wrong address, model or key, or no answer after several tries."""


class EndpointWriter:
    """Asks a server for each caption, several at a time; at temperature 0.

    A request without an answer, or with an error of the server's own, is sent again up to six times, after growing
    pauses (the openai package's rule). ``url`` is the base URL of the server's API ("http://127.0.0.1:8000/v1").
    """

    # Captions are stored in batches of as many, so that a run can go on with more or fewer requests at a time.
    at_a_time = 16

    def __init__(self, url: str, model: str, writing: Writing) -> None:
        from openai import OpenAI

        self.url, self.model, self.writing = url, model, writing
        self.readers = 16 if writing.caption_batch == "auto" else writing.caption_batch
        key = os.environ.get(KEY) or "none"
        self.client = OpenAI(base_url=url, api_key=key, max_retries=_RETRIES, timeout=_SECONDS)

    def batches(self, images: MaskedImages) -> list[list[str]]:
        """All images in their order."""
        return in_batches(list(images.names), self.at_a_time)

    def prepare(self, image: Image) -> Caption:
        """The caption of an RGB image, which is sent as PNG; an EndpointError if no image can be captioned."""
        import numpy as np
        import openai

        data = base64.b64encode(encode(np.asarray(image))).decode()
        text = DESCRIBE if self.writing.prompt is None else self.writing.prompt
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        try:
            answer = self.client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": [shown, {"type": "text", "text": text}]}],  # type: ignore[misc, list-item]
                max_tokens=self.writing.max_tokens,
                temperature=0.0,
            )
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            what = f"the server refuses it ({first_line(error)})"
            raise JudgeError(what, where=self.url, mend="leave it out, or make it smaller") from error
        except openai.OpenAIError as error:
            raise self._fault(error) from error
        if not answer.choices:
            mend = "check that it serves chat completions"
            raise EndpointError("answers without a caption", where=self.url, mend=mend)
        (choice, *_) = answer.choices
        return Caption(" ".join((choice.message.content or "").split()), choice.finish_reason == "length")

    def write(self, prepared: Sequence[Caption]) -> list[Caption]:
        """They were written by :meth:`prepare`, in its threads."""
        return list(prepared)

    def _fault(self, error: Exception) -> EndpointError:
        import openai

        reasons: dict[type[Exception], tuple[str, str]] = {
            openai.AuthenticationError: ("refuses the key", f"set {KEY} to a valid one"),
            openai.PermissionDeniedError: ("refuses the key", f"set {KEY} to one that may use this model"),
            openai.NotFoundError: (f"has no model '{self.model}', or no chat completions", "check --model and the URL"),
            openai.RateLimitError: ("has too many requests", "wait, or lower --caption-batch"),
            openai.APITimeoutError: ("does not answer in time", "lower --caption-batch"),
            openai.APIConnectionError: ("cannot be reached", "start the server, and check the URL (it ends in /v1)"),
        }
        found = (of for kind, of in reasons.items() if isinstance(error, kind))
        what, mend = next(found, (f"fails ({first_line(error)})", "look at the server's log"))
        return EndpointError(what, where=f"--endpoint {self.url}", mend=f"{mend}; the same command continues")
