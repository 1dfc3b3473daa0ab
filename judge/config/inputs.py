"""Parts of settings: attributes and labels, captions, and images with what is hidden in them."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ValidationInfo, field_validator

from judge.config import Settings, values
from judge.utils.options import option


class WordSettings(Settings):
    """The attribute, and the words that name its classes."""

    panel = "Input"

    attribute: values.Attributes = option(
        "gender", "protected attribute; several: the classes are their products", repeated="NAME", essential=True
    )
    lexicon: values.Lexicons = option(
        None, "words to hide: a lexicon, a .yaml file, or none", "the attribute's", repeated="[NAME=]TEXT", file=True,
        essential=True,
    )  # fmt: skip

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of all attributes."""
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute

    @property
    def attribute_name(self) -> str:
        """The attribute's name; for several, that of their product."""
        from judge.text.combined import AND

        return AND.join(self.attributes)

    @field_validator("lexicon", "labels", "label_values", "label_drop", mode="before", check_fields=False)
    @classmethod
    def _by_attribute(cls, value: object, info: ValidationInfo) -> object:
        from judge.corpus.attributes import by_attribute, check_names, listed_by_name

        names = info.data.get("attribute", "gender")
        names = (names,) if isinstance(names, str) else names
        if info.field_name == "label_drop":
            listed = [value] if isinstance(value, str) else value
            if isinstance(listed, list | tuple):
                listed = listed_by_name(listed, "NAME=VALUE") if len(names) > 1 else [str(one) for one in listed]
            if isinstance(listed, dict):
                check_names(listed, names)
            return listed
        if info.field_name != "label_values":
            return by_attribute(value, names, shared=info.field_name == "labels")
        if len(names) == 1 or not isinstance(value, dict):
            return values.spellings(value)
        check_names(value, names)
        return {
            name: values.spellings(listed_by_name(given, "CLASS=TEXT") if isinstance(given, list | tuple) else given)
            for name, given in value.items()
        }


class TableSettings(Settings):
    """Which columns and records of tables are read."""

    panel = "Input"

    where: dict[str, str] = option(
        {}, "keep records of caption and label tables whose COLUMN holds TEXT; human captions must have that column, "
        "other tables without it are taken whole", repeated="COLUMN=TEXT",
    )  # fmt: skip
    columns: dict[str, str] = option(
        {}, "columns that are not recognised by name: image_id and caption of captions, of one side human.caption or "
        "captions.caption; labels.image_id, labels.gender and the like; labels.scene names the scene of each image, "
        "which several images show with different people; objects.image_id, objects.object", flag="--column",
        repeated="ROLE=NAME",
    )  # fmt: skip


class LabelSettings(WordSettings, TableSettings):
    """The class of the attribute that each image has."""

    labels: values.LabelFiles = option(None, values.LABELS, repeated="[NAME=]FILE", essential=True)
    label_values: dict[str, tuple[str, ...]] | dict[str, dict[str, tuple[str, ...]]] = option(
        {}, "how the label table spells a class, e.g. female=1; with several attributes skin=darker=1",
        flag="--label-value", repeated="CLASS=TEXT",
    )  # fmt: skip
    label_rule: Literal["one", "majority"] = option(
        "one", "class of an image with several labels: one (they must be equal), or majority (ties are left out)"
    )
    label_drop: tuple[str, ...] | dict[str, tuple[str, ...]] = option(
        (), "label that means no class, beside empty, Both, Unsure, unknown and the like", repeated="[NAME=]VALUE"
    )
    label_least: int = option(1, "without --labels: number of human captions that must name an image's class", ge=1)


class ReadingSettings(TableSettings):
    """How files of captions are read."""

    split: values.Splits = option(None, "splits of a Karpathy file or a data set, e.g. train,restval", repeated="NAME")


class TokenSettings(Settings):
    """How captions become words."""

    panel = "Input"

    contractions: Literal["whole", "split"] = option("whole", 'keep "woman\'s" as one word (whole) or split it')
    text: Literal["sentences", "whole", "first-sentence"] = option(
        "sentences", "what judges read of long captions: sentences one by one, the whole caption, or its first sentence"
    )


class HumanSettings(LabelSettings, ReadingSettings, TokenSettings):
    """Human captions, and the objects of their images."""

    human: values.Files | None = option(None, values.HUMAN, repeated="PATH", essential=True)
    objects: Path | None = option(
        None, "objects in each image: COCO instances, {image: [objects]}, or a table", "those in human captions"
    )
    own_captions: bool = option(False, "keep human captions whose own label in the table is their image's")


class DetectionSettings(Settings):
    """Images, the instances in them, and networks that may find people."""

    panel = "Images"
    found: ClassVar[bool] = False  # Whether a tool found the instances.

    person_categories: Annotated[tuple[str, ...], values.list_or_text(tuple)] = option(
        (), "category of --instances or the detector that is people", "person; else all that name people",
        flag="--person-category", repeated="NAME",
    )  # fmt: skip
    class_names: values.ClassNames = option(
        {}, "names of a detector's or a label file's classes: one per line, or YAML or JSON id: name; without "
        "DETECTOR= for all that have no file of their own", "its own", repeated="[DETECTOR=]FILE",
    )  # fmt: skip
    weights: values.Weights = option(
        {}, "weights of a detector: file, or name in its library", repeated="[DETECTOR=]FILE", file=True, essential=True
    )
    trust_weights: Path | None = option(None, "folder whose .pt files may be unpickled, which can run any code in them")
    images: Path | None = option(None, values.IMAGES, essential=True)
    instances: values.Files | None = option(
        None, f"{values.INSTANCES}, for detector gt", repeated="PATH", essential=True
    )
    cache: Path = option(values.CACHE, "cache folder for detections and features")

    @property
    def features(self) -> Path:
        """The folder of features of images."""
        return self.cache / "features"

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will run."""
        return ()

    def names_of(self, detector: str) -> Path | None:
        """The file that names the classes of a detector; of "gt", those of label files and results."""
        return self.class_names.get(detector, self.class_names.get(""))


class DetectorSettings(DetectionSettings):
    """Images, and what finds people in them."""

    detector: values.Detector = option("gt", "what finds people and things; hf:NAME: Hugging Face", essential=True)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will run."""
        return (self.detector,)


class MaskSettings(Settings):
    """How found people and objects are hidden."""

    panel = "Images"

    fill: Literal["black", "mean"] = option("black", "what replaces hidden pixels")
    share: values.Share = option(0.5, "share of each mask that mode partial hides, from the top")
    dilation: int = option(0, "pixels by which hidden regions grow", ge=0)
    threshold: float = option(0.5, "lowest score of a detected instance", ge=0.05, le=1)
    allow_unmasked: bool = option(False, "go on where masks hide almost nobody; metrics of images have no verdict")


class ObjectSettings(Settings):
    """Which instances are hidden, where that is not varied."""

    panel = "Images"

    category: str | None = option(None, "object category to hide", "chosen by BA from --instances and --labels")
    foreground: Literal["all", "largest"] | values.Share = option(
        "all", "instances to hide: all, the largest, or those above a share of the image, e.g. 0.05"
    )


class HidingSettings(ObjectSettings, MaskSettings, LabelSettings, DetectionSettings):
    """Images, and what is hidden in them."""

    hide: values.Hide = option("person", "what is hidden; object: that most correlated with the attribute, by BA")


class MaskedSettings(HidingSettings, DetectorSettings):
    """Images, what is hidden in them, and the one detector that finds it."""


class ShownSettings(MaskedSettings):
    """Images as judges see them, masked or as they are."""

    command = "judge evaluate"

    mask: values.MaskMode = option("segment", values.MASK, essential=True)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will run."""
        return (self.detector,) if self.images and self.mask != "none" else ()


MASKING = {*MaskSettings.model_fields, *ObjectSettings.model_fields, "mask", "hide", "detector"}
MASKING -= {"allow_unmasked"}
"""What decides which pixels of an image a judge sees, the detector's weights apart."""


class FolderSettings(MaskedSettings):
    """A folder of images that a command masks or captions one by one."""

    images: Path = option(..., values.IMAGES, essential=True)
    labels: values.LabelFiles = option(None, f"{values.LABELS}, to choose the object to hide", repeated="[NAME=]FILE")
    device: str | None = option(None, *values.DEVICE)

    @field_validator("columns")
    @classmethod
    def _of_labels(cls, value: dict[str, str]) -> dict[str, str]:
        from judge.corpus.columns import split_role

        if others := [role for role in value if split_role(role)[0] != "labels"]:
            raise ValueError(f"'{others[0]}' is no column of labels, the only table that is read: labels.ROLE=NAME")
        return value
