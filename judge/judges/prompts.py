"""The cloze sentence that a captioner completes with the attribute: a template, and a word for each class.

Source: Abdelrahman et al., AAAI 2024 (ImageCaptioner2), "Prompt construction": the masked caption, then a cloze
template; the judge fills in [Answer].
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import judge.text
from judge.errors import JudgeError, nearest
from judge.utils.reading import read_yaml

SLOT = "[Answer]"


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a captioner.

    Attributes:
        template: one sentence that ends with ``[Answer]``, its only one.
        answers: class -> its word; the default is the class's name.

    Raises:
        JudgeError: no ``[Answer]`` in the template, more than one, or text after it; an empty answer.
    """

    template: str
    answers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.template.count(SLOT) != 1:
            what = f"'{self.template}' has {self.template.count(SLOT)} times {SLOT}"
            mend = f"write it once, as in '{make_prompt('gender').template}'"
            raise JudgeError(what, where="--template", mend=mend)
        if unread := self.template.partition(SLOT)[2].strip():
            what, mend = f"no judge reads '{unread}', which stands after {SLOT}", f"end the template with {SLOT}"
            raise JudgeError(what, where="--template", mend=mend)
        for name, word in self.answers.items():
            if not word.strip():
                raise JudgeError(f"class '{name}' has an empty answer", where="--answer", mend="give it a word")

    @property
    def question(self) -> str:
        """The text before the answer: "Therefore, the gender is"."""
        return self.template.partition(SLOT)[0].strip()

    def check(self, classes: Collection[str]) -> None:
        """Refuse answers of other classes than ``classes``, those of the labels, and two classes with one answer."""
        for name in self.answers:
            if name not in classes:
                raise JudgeError(f"no class '{name}'", where="--answer", mend=nearest(name, list(classes)))
        if self.answers:
            self.words(classes)

    def words(self, classes: Collection[str]) -> tuple[str, ...]:
        """The answer of each class; one answer of two classes, whatever its case, is refused."""
        found = [" ".join(self.answers.get(name, name.replace("_", " ")).split()) for name in classes]
        if len({word.casefold() for word in found}) < len(found):
            raise JudgeError(f"two classes have one answer: {', '.join(found)}", where="--answer", mend="name each")
        return tuple(found)


def make_prompt(attribute: str, template: str | None = None, answers: Mapping[str, str] | None = None) -> Prompt:
    """The prompt of a run: ``template``, or that of the attribute in ``judge/text/prompts.yaml``."""
    if template is None:
        template = _templates().get(attribute, f"Therefore, the {attribute} is {SLOT}")
    return Prompt(template, answers or {})


@cache
def _templates() -> dict[str, str]:
    return dict(read_yaml(Path(judge.text.__file__).with_name("prompts.yaml"), mend="install the package again"))
