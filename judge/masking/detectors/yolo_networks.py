"""YOLO networks from files: our safetensors, ONNX, and Ultralytics' own pickled ``.pt``, where the user trusts it.

What leaves this module is a :class:`Network`: tensors in, rows and prototypes out. Boxes, masks and scores are read
from them in ``yolo.py``, alike for every file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.errors import JudgeError, nearest
from judge.masking.detectors.isolation import import_onnxruntime, import_ultralytics
from judge.masking.detectors.weights import Header
from judge.utils.files import resolved

if TYPE_CHECKING:
    import torch
    from torch import Tensor

DEFAULT_SIZE = 640
"""Ultralytics' size of pictures, where a file does not name its own."""

_HEADS = frozenset({"Detect", "Segment", "Segment26", "v10Detect"})
_KEYS = frozenset(
    {"nc", "scales", "scale", "depth_multiple", "width_multiple", "max_channels", "channels", "ch"}
    | {"backbone", "head", "reg_max", "end2end", "activation", "inplace", "yaml_file", "task"}
)
_LARGEST, _REPEATS = 10_000, 100
_NOT_OURS = "give weights of an Ultralytics model that segments or detects"
_EXPORT = "export it to ONNX where you trust it ('yolo export model=FILE.pt format=onnx'), and give that"


@dataclass(frozen=True)
class Network:
    """A YOLO network, whatever it came from.

    Attributes:
        run: rows, and prototypes of masks or None, for pixels [B, 3, H, W] in [0, 1]. Prototypes are
            [B, coefficients, H / 4, W / 4].
        categories: names of its classes.
        image_size: pixels of the longer side that it was made for.
        stride: height and width must be multiples of it.
        coefficients: mask coefficients a row carries; 0 where it finds boxes only.
        suppressed: a row is corners, score, class and coefficients, [B, N, 6 + coefficients], and no thing has two;
            else it is centre, width, height, a score for each class and coefficients, [B, 4 + classes +
            coefficients, N], and things have several.
        version: of what computes it.
        fixed: height and width, where it takes no other.
    """

    run: Callable[[Tensor], tuple[Tensor, Tensor | None]]
    categories: tuple[str, ...]
    image_size: int
    stride: int
    coefficients: int
    suppressed: bool
    version: str
    fixed: tuple[int, int] | None = None


def of_model(model: Any, *, image_size: int, device: torch.device) -> Network:
    """The network of an Ultralytics model, which is fused: it cannot be trained afterwards."""
    import torch

    fused = model.to(device).eval().fuse(verbose=False)
    head = fused.model[-1]
    coefficients = int(getattr(head, "nm", 0))

    def run(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        with torch.no_grad():
            found = fused(pixels.to(device))[0]
        return found if coefficients else (found, None)

    return Network(
        run,
        categories=names_of(fused.names, "the model"),
        image_size=image_size,
        stride=int(max(fused.stride)),
        coefficients=coefficients,
        suppressed=bool(getattr(head, "end2end", False)),
        version=f"ultralytics {import_ultralytics().__version__}, torch {torch.__version__}",
    )


def build(architecture: Mapping[str, Any], categories: Sequence[str], where: str) -> Any:
    """An Ultralytics model with fresh weights.

    Args:
        architecture: what its YAML file holds, its scale chosen.
        categories: names of the classes.
        where: names the source in messages.

    Raises:
        JudgeError: an architecture that names anything but layers, or does not hang together.
    """
    tasks = import_ultralytics().nn.tasks
    _check_architecture(architecture, where)
    head = architecture["head"][-1][2]
    kind = tasks.SegmentationModel if head.startswith("Segment") else tasks.DetectionModel
    try:
        # Ultralytics writes into what it is given.
        model = kind(deepcopy(dict(architecture)), ch=3, nc=len(categories), verbose=False)
    except Exception as error:  # Whatever the layers make of numbers that do not fit.
        what = f"its architecture cannot be built ({type(error).__name__})"
        raise JudgeError(what, where=where, mend=_NOT_OURS) from error
    model.names = dict(enumerate(categories))
    return model


def packaged(name: str, scale: tuple[float, float, int] | None = None) -> dict[str, Any]:
    """An architecture that comes with Ultralytics.

    Args:
        name: "yolov8n-seg", "yolo11n-seg", ...
        scale: depth, width and most channels, in place of the letter's in ``name``.

    Raises:
        JudgeError: no such architecture.
    """
    tasks = import_ultralytics().nn.tasks
    try:
        found: dict[str, Any] = tasks.yaml_model_load(f"{name}.yaml")
    except FileNotFoundError as error:
        mend = "take one such as yolov8n-seg"
        raise JudgeError(f"Ultralytics has no architecture '{name}'", mend=mend) from error
    found.pop("yaml_file", None)
    if scale is not None:
        found |= {"scales": {"own": list(scale)}, "scale": "own"}
    return found


def header_of(model: Any, image_size: int) -> Header:
    """What to write beside an Ultralytics model's weights."""
    architecture = {key: value for key, value in model.yaml.items() if key in _KEYS - {"yaml_file"}}
    return Header("yolo", architecture, names_of(model.names, "the model"), image_size)


def read_checkpoint(path: Path) -> tuple[Any, int]:
    """The model in an Ultralytics ``.pt``, and its size of pictures. The caller answers for the file being trusted.

    Raises:
        JudgeError: damaged, not of Ultralytics, neither segmenting nor detecting, or with parts that even the
            restricted reader refuses.
    """
    import torch

    tasks = import_ultralytics().nn.tasks
    try:
        checkpoint, _ = tasks.torch_safe_load(str(resolved(path)), safe_only=True)
        model = checkpoint.get("ema") or checkpoint.get("model")
    except Exception as error:  # A pickle fails in as many ways as there are classes in it.
        what = f"cannot be read as a checkpoint of Ultralytics ({type(error).__name__})"
        raise JudgeError(what, where=str(path), mend=f"download it again, or {_EXPORT}") from error
    head = type(model.model[-1]).__name__ if isinstance(getattr(model, "model", None), torch.nn.Sequential) else None
    if head not in _HEADS:
        what = f"holds a model that ends in {head}" if head else "holds no model of Ultralytics"
        raise JudgeError(what, where=str(path), mend=_NOT_OURS)
    return model.float(), largest((checkpoint.get("train_args") or {}).get("imgsz"))


def read_onnx(data: bytes, where: str, device: torch.device) -> Network:
    """A network of an ONNX file's bytes.

    Raises:
        JudgeError: damaged, without Ultralytics' metadata, weights in other files, another task.
    """
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    wanted = ["CUDAExecutionProvider"] * (device.type == "cuda") + ["CPUExecutionProvider"]
    providers = [name for name in wanted if name in onnxruntime.get_available_providers()]
    try:
        # From bytes: a graph then cannot have other files of the user's disk read as its weights.
        session = onnxruntime.InferenceSession(data, options, providers=providers)
        notes = session.get_modelmeta().custom_metadata_map
    except Exception as error:  # ONNX Runtime has no base class for its errors.
        mend = "export it again, into one file"
        raise JudgeError("cannot be read as ONNX", where=where, mend=mend) from error
    if notes.get("task") not in {"detect", "segment"} or "names" not in notes:
        what = f"is made for the task '{notes['task']}'" if notes.get("task") else "has no metadata of Ultralytics"
        raise JudgeError(what, where=where, mend=_NOT_OURS)
    return _of_session(session, notes, where, f"onnxruntime {onnxruntime.__version__}")


def names_of(names: object, where: str) -> tuple[str, ...]:
    """Class names in order, of Ultralytics' {0: "person", 1: ...}.

    Raises:
        JudgeError: not numbered from 0 on.
    """
    if isinstance(names, list | tuple):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or sorted(names) != list(range(len(names))) or not names:
        raise JudgeError("its classes are not numbered from 0 on", where=where, mend=_NOT_OURS)
    return tuple(str(names[index]) for index in range(len(names)))


def _of_session(session: Any, notes: Mapping[str, str], where: str, version: str) -> Network:
    """The network around ``session``, whose inputs and outputs must be those of an Ultralytics export."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    segments = notes["task"] == "segment"
    shape = list(inputs[0].shape)
    sound = len(inputs) == 1 and len(shape) == 4 and shape[1] == 3 and len(outputs) == 1 + segments
    stride = _literal(notes.get("stride", "32"), where)
    if not sound or inputs[0].type != "tensor(float)" or type(stride) is not int or not 1 <= stride <= 256:
        mend = "export it with 'yolo export format=onnx', in full precision, of three channels"
        raise JudgeError("its inputs and outputs are not those of a YOLO model", where=where, mend=mend)
    arguments = _literal(notes.get("args", "{}"), where)
    suppresses = isinstance(arguments, dict) and arguments.get("nms")
    size = _literal(notes.get("imgsz", str(DEFAULT_SIZE)), where)
    height, width = shape[2:]
    fixed = (height, width) if isinstance(height, int) and isinstance(width, int) else None
    return Network(
        _runner(session, segments=segments),
        categories=names_of(_literal(notes["names"], where), where),
        image_size=max(fixed) if fixed else largest(size),
        stride=stride,
        coefficients=int(outputs[1].shape[1]) if segments else 0,
        suppressed=bool(suppresses or _literal(notes.get("end2end", "False"), where)),
        version=version,
        fixed=fixed,
    )


def _runner(session: Any, *, segments: bool) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
    import torch

    [entry] = session.get_inputs()

    def run(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        # An export without dynamic shapes takes so many pictures, neither more nor fewer.
        size = entry.shape[0] if isinstance(entry.shape[0], int) else len(pixels)
        pieces = []
        for start in range(0, len(pixels), size):
            piece = pixels[start : start + size].numpy()
            spare = np.zeros((size - len(piece), *piece.shape[1:]), piece.dtype)
            outputs = session.run(None, {entry.name: np.concatenate([piece, spare])})
            pieces.append([torch.from_numpy(output[: len(piece)]) for output in outputs])
        columns = [torch.cat(column) for column in zip(*pieces, strict=True)]
        return columns[0], columns[1] if segments else None

    return run


def largest(size: object) -> int:
    """Pixels of the longer side, of Ultralytics' ``imgsz``: a number or [height, width]."""
    sides = size if isinstance(size, list | tuple) else [size]
    return max((side for side in sides if type(side) is int and 32 <= side <= 8192), default=DEFAULT_SIZE)


def _literal(text: str, where: str) -> object:
    """The Python literal (nothing else) that Ultralytics writes as metadata."""
    wrong = JudgeError("its metadata cannot be read", where=where, mend="export it again")
    # Deep nesting can exhaust the parser's stack.
    if len(text) > 1_000_000 or re.search(r"([(\[{]\s*){20}", text):
        raise wrong
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise wrong from error


def _numbers(value: Any) -> Iterator[float]:
    """All in a JSON value."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict | list):
        for held in value.values() if isinstance(value, dict) else value:
            yield from _numbers(held)


def _check_architecture(architecture: Mapping[str, Any], where: str) -> None:
    """Only layers may be named: Ultralytics looks names up among all that its module knows, and may evaluate one."""
    import torch

    tasks = import_ultralytics().nn.tasks

    def refuse(what: str) -> JudgeError:
        return JudgeError(f"its architecture {what}", where=where, mend=_NOT_OURS)

    for key in architecture:
        if key not in _KEYS:
            raise refuse(f"has a key '{key}': {nearest(str(key), sorted(_KEYS))}")
    if not re.fullmatch(r"(torch\.)?nn\.\w+\(\)", str(architecture.get("activation") or "nn.SiLU()")):
        raise refuse("has an activation that is no plain torch.nn class")
    parts = [architecture.get(part) for part in ("backbone", "head")]
    rows: list[Any] = [row for part in parts for row in (part if part and isinstance(part, list) else [None])]
    for row in rows:
        if not isinstance(row, list) or len(row) != 4 or not isinstance(row[2], str) or not isinstance(row[3], list):
            raise refuse("has a row that is not [from, repeats, module, arguments]")
        name = row[2]
        space = torch.nn if name.startswith("nn.") else tasks
        layer = getattr(space, name.removeprefix("nn."), None)
        # TorchVision's weights would be downloaded.
        if not (isinstance(layer, type) and issubclass(layer, torch.nn.Module)) or name == "TorchVision":
            raise refuse(f"names '{name}', which is no layer")
    # A few words can ask for billions of layers; none of Ultralytics' own has a number over 1,024.
    if any(not abs(number) <= _LARGEST for number in _numbers(architecture)):
        raise refuse(f"has a number over {_LARGEST:,}")
    if any(not isinstance(row[1], int) or row[1] > _REPEATS for row in rows):
        raise refuse(f"repeats a layer over {_REPEATS} times")
    if rows[-1][2] not in _HEADS:
        raise refuse(f"ends in {rows[-1][2]}")
