"""Captions by a server that speaks OpenAI's protocol: vLLM, SGLang, ``transformers serve``, or a hosted one."""

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from PIL.Image import Image

from judge.captioning.writing import Caption, Writing, in_batches
from judge.corpus.captions import SERVER_REFUSED
from judge.errors import FAULTS, JudgeError
from judge.judges.hf_prompts import DESCRIBE
from judge.masking.images import encode
from judge.masking.masked_images import MaskedImages
from judge.utils.hub import explaining, first_line

KEY = "OPENAI_API_KEY"
"""Environment variable of the key; servers of one's own need none."""
_RETRIES = 6
_SECONDS, _CONNECTING = 600.0, 20.0
_CHECK = "check the URL (it ends in /v1)"
# The server is at fault, not the images, after so many requests in a row without an answer; refusals of large images,
# which are quicker than answers, count less.
_MOST, _WEIGHT = 64, 4
# Codes of errors: the server refuses to describe what the image shows; the image is too large.
_REFUSES = re.compile("content_?(policy|filter)|moderation|inspection|invalid_prompt|safety", re.IGNORECASE)
_LARGE = re.compile("context_length|too_large")
_UNSUPPORTED = re.compile("unsupported|(not|n't) support|not permitted|deprecated|unrecognized|unknown", re.IGNORECASE)


class EndpointError(JudgeError):
    """The server answers no request, whatever the image: a wrong address, model, key or setting, or it is down."""


class EndpointWriter:
    """Asks a server for each caption, several at a time; at temperature 0 if the server takes one.

    ``url`` is the base URL of the server's API ("http://127.0.0.1:8000/v1"). ``answered``: whether any request has had
    an answer, so that faults of single requests are of their images.
    """

    # Processes of a launch share the images in batches of as many.
    at_a_time = 16

    def __init__(self, url: str, model: str, writing: Writing) -> None:
        import openai

        self.model, self.where = model, f"--endpoint {url}"
        self.readers = 16 if writing.caption_batch == "auto" else writing.caption_batch
        self.prompt = DESCRIBE if writing.prompt is None else writing.prompt
        self.settings: dict[str, float] = {"max_tokens": writing.max_tokens, "temperature": 0.0}
        self.answered, self._failed, self._lock = False, 0, Lock()
        self._given_up: EndpointError | None = None
        key = os.environ.get(KEY, "").strip() or "none"
        if not (key.isascii() and key.isprintable()):
            what = "holds a character that no key has, such as a curly quote or a line break"
            raise JudgeError(what, where=KEY, mend="set it to the key alone")
        mend = "check ALL_PROXY, HTTPS_PROXY and SSL_CERT_FILE in the environment; for socks, pip install socksio"
        with explaining("no connection can be made", self.where, mend):
            timeout = openai.Timeout(_SECONDS, connect=_CONNECTING)
            self.client = openai.OpenAI(base_url=url, api_key=key, max_retries=_RETRIES, timeout=timeout)
        try:  # Without retries, which would hide for a minute that there is no connection.
            self.client.with_options(max_retries=0, timeout=_CONNECTING).get("/models", cast_to=object)
        except openai.APIConnectionError as error:
            if not _is_slow(error):
                raise self._fault(error, hopeless=True) from error
        except Exception:  # noqa: S110 - not every server lists its models
            pass

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for readers of the captions."""
        note = "the server takes no temperature: its captions are sampled, and another run gives others"
        return () if "temperature" in self.settings else (note,)

    def batches(self, images: MaskedImages) -> list[list[str]]:
        """All images in their order."""
        return in_batches(list(images.names), self.at_a_time)

    def prepare(self, image: Image) -> Caption:
        """The caption of an RGB image, which is sent as PNG; an EndpointError if no image can be captioned."""
        import numpy as np

        if self._given_up:
            raise self._given_up
        data = base64.b64encode(encode(np.asarray(image))).decode()
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        content = [picture, {"type": "text", "text": self.prompt}]
        try:
            caption = self._read(self._ask([{"role": "user", "content": content}]))
        except Exception as error:
            if not _REFUSES.search(code := str(getattr(error, "code", None))):
                raise self._fault(error) from error
            caption = _refused(code)
        with self._lock:
            self.answered, self._failed = True, 0
        return caption

    def write(self, prepared: Sequence[Caption]) -> list[Caption]:
        """They were written by :meth:`prepare`, in its threads."""
        return list(prepared)

    def _ask(self, messages: Any) -> str:
        """The server's answer, as it sends it; settings that it does not take are left out from now on."""
        import openai

        while True:
            settings: Any = dict(self.settings)
            try:
                chat = self.client.chat.completions.with_raw_response
                return chat.create(model=self.model, messages=messages, **settings).http_response.text
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                said = str(error.body)
                refused = next((name for name in settings if name in said and _UNSUPPORTED.search(said)), None)
                if refused in {None, "max_completion_tokens"}:
                    raise
            with self._lock:
                value = self.settings.pop(refused, None)  # None where another thread has changed it already.
                if refused == "max_tokens" and value is not None:
                    self.settings["max_completion_tokens"] = value

    def _read(self, text: str) -> Caption:
        """The caption in an answer; an error with the server's own message where there is none."""
        try:
            answer = json.loads(text)
        except ValueError as error:
            what, mend = f"answers, but with no chat completion: '{first_line(ValueError(text))}'", _CHECK
            raise JudgeError(what, where=self.where, mend=mend) from error
        try:
            choice = answer["choices"][0]
            message, end = choice["message"], choice.get("finish_reason")
            content, refusal = message.get("content") or "", message.get("refusal")
            if isinstance(content, list):
                content = " ".join(part.get("text", "") for part in content)
        except FAULTS as error:
            for name in ("error", "message", "detail"):  # The server's message, or else its answer.
                answer = answer.get(name) or answer if isinstance(answer, Mapping) else answer
            what = f"answers without a caption ({first_line(ValueError(answer))})"
            raise JudgeError(what, where=self.where, mend="see the server's message and log") from error
        if refusal or _REFUSES.search(str(end)):
            return _refused(refusal or end)
        return Caption(_line(content), end == "length")

    def _fault(self, error: Exception, *, hopeless: bool = False) -> JudgeError:
        """The fault of an image, or, unless any request has been answered, of the server: an EndpointError."""
        import openai

        status, (what, mend) = _status(error), self._explain(error)
        again = isinstance(error, openai.APIConnectionError) or status in {408, 409, 429} or status >= 500
        tries = 1 + _RETRIES if again else 1
        with self._lock:
            if again or not self.answered or status in {401, 404}:
                self._failed += {401: _MOST, 404: _MOST, 413: 1}.get(status, _WEIGHT * tries)
            if hopeless or self._failed >= _MOST:
                self._given_up = EndpointError(what, where=self.where, mend=f"{mend}; the same command continues")
                return self._given_up
        return JudgeError(what, where=self.where, mend=mend)

    def _explain(self, error: Exception) -> tuple[str, str]:
        import openai

        if isinstance(error, JudgeError):
            return error.what, error.mend
        if _is_slow(error):
            return "does not answer in time", "lower --caption-batch"
        if isinstance(error, openai.APIConnectionError):
            return self._unreached(error)
        reasons = {
            401: ("refuses the key", f"set {KEY} to a valid one"),
            404: (f"has no model '{self.model}', or no chat completions", "check --model and the URL"),
            413: ("refuses an image of this size", "make it smaller, or leave it out"),
            429: ("has too many requests", "wait, or lower --caption-batch"),
        }
        status = _status(error)
        usual = ("fails", "look at the server's log") if status >= 500 else ("refuses the request", "see its message")
        what, mend = reasons.get(status, usual)
        return f"{what} ({first_line(error)})", mend

    def _unreached(self, error: Exception) -> tuple[str, str]:
        """Why there is no connection: a proxy, a certificate, or no server."""
        parts, cause = urlsplit(self.where.split()[1]), first_line(error.__cause__ or error)
        mend = f"start the server, and {_CHECK}"
        if {parts.scheme, "all"} & getproxies().keys() and not proxy_bypass(parts.hostname or ""):
            mend = f"check the proxy in the environment ({parts.scheme.upper()}_PROXY or ALL_PROXY), or set NO_PROXY"
        if "CERTIFICATE" in cause:
            mend = "set SSL_CERT_FILE to a file with the certificate that the server's is signed with"
        return f"cannot be reached ({cause})", mend


def _is_slow(error: Exception) -> bool:
    """Return whether the server was reached but did not answer in time."""
    return type(error.__cause__).__name__ in {"ReadTimeout", "WriteTimeout"}


def _status(error: Exception) -> int:
    """The status of an answer, 413 if the image is too large by its code; 0 without an answer."""
    return 413 if _LARGE.search(str(getattr(error, "code", ""))) else getattr(error, "status_code", 0)


def _refused(reason: str) -> Caption:
    return Caption(_line(f"{SERVER_REFUSED}: {reason}"))


def _line(text: str) -> str:
    """``text`` in one line; half of a surrogate pair, which no file can hold, is replaced."""
    return " ".join(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())
