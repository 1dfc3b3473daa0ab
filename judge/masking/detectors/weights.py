"""What detectors that are networks share: files of weights, options, device, batches.

One safetensors file holds a detector; its metadata say how to build the network, what its classes are called and at
which size it works. Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from judge.errors import FAULTS, JudgeError
from judge.masking.instances import Instance, Picture
from judge.utils.files import write_whole, writing
from judge.utils.reading import memory_limit, read_bytes

if TYPE_CHECKING:
    import torch

Kind = Literal["yolo", "maskrcnn"]

SCORES_FROM = 0.05
"""The least score of a detection that is returned, of every detector."""

_MARK = "caption_judge_detector"
_TITLES = {"yolo": "YOLO model", "maskrcnn": "Mask R-CNN"}
_AGAIN = "copy or download it again"
_SPARE = 10**6  # Numbers that a network of few weights may have while it is built.


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata of a detector's file.

    Attributes:
        kind: "yolo" or "maskrcnn".
        architecture: what the network is built from; JSON.
        categories: names of the classes, in the order of the network's outputs (background left out).
        image_size: pixels of a picture's longer side, as the network wants it; None: its library's own size.
    """

    kind: Kind
    architecture: Mapping[str, Any]
    categories: tuple[str, ...]
    image_size: int | None


def read_weights(path: Path) -> bytes:
    """The bytes of a weights file.

    Raises:
        JudgeError: missing, a folder, not readable.
    """
    try:
        return read_bytes(path, memory_limit())
    except FileNotFoundError:
        raise JudgeError("no such file of weights", where=str(path), mend="check the path") from None
    except OSError as error:
        mend = "give a file that you may read"
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(path), mend=mend) from error


def parse_safetensors(data: bytes, where: str, kind: Kind) -> tuple[Header | None, dict[str, torch.Tensor]]:
    """Header (None where the file is not ours) and weights of a safetensors file.

    Raises:
        JudgeError: truncated or no safetensors; a header of ours that is not sound, or not of ``kind``.
    """
    import safetensors.torch

    try:
        tensors = safetensors.torch.load(data)
        # The library gives metadata of files alone. It has just checked this very header.
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    except (safetensors.SafetensorError, ValueError) as error:
        raise JudgeError("is no whole safetensors file", where=where, mend=_AGAIN) from error
    header = _parse_header(metadata[_MARK], where) if _MARK in metadata else None
    if header is not None and header.kind != kind:
        what, mend = f"holds a {_TITLES[header.kind]}", f"take --detector {header.kind}"
        raise JudgeError(what, where=where, mend=mend)
    return header, tensors


def write_detector(path: Path, header: Header, tensors: Mapping[str, torch.Tensor], *, new: bool = False) -> None:
    """Write a detector's one file, whole or not at all; see ``write_whole``.

    Raises:
        JudgeError: the place cannot be written.
    """
    from safetensors.torch import save

    # Tied weights share storage, which safetensors refuses: each name gets its own copy.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    data = save(copies, {_MARK: json.dumps(asdict(header), sort_keys=True)})
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)


def filled(build: Callable[[], Any], tensors: Mapping[str, torch.Tensor], where: str) -> Any:
    """The network that ``build`` makes, with ``tensors`` for its weights: every one, at its place, finite.

    Raises:
        JudgeError: names or shapes that do not fit; a network much larger than its weights; NaN or infinity among them.
    """
    import torch

    most = _SPARE + 4 * sum(tensor.numel() for tensor in tensors.values())  # Layers are replaced while building.
    with torch.random.fork_rng(devices=[]), _limited(most, where):  # The process's random numbers stay.
        network = build()
    wanted = network.state_dict()
    # Counters of batches, which only training without momentum reads; older files lack them.
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}
    missing = sorted(set(wanted) - set(tensors) - counters)
    unknown = sorted(set(tensors) - set(wanted))
    other = sorted(n for n in set(wanted) & set(tensors) if wanted[n].shape != tensors[n].shape)
    for names, fault in ((missing, "lacks"), (unknown, "has in excess"), (other, "has in another shape")):
        if names:
            what = f"does not fit the network: {fault} {len(names)} weights, such as '{names[0]}'"
            raise JudgeError(what, where=where, mend="give the weights of this kind of network")
    spoilt = next((name for name, t in tensors.items() if t.is_floating_point() and not t.isfinite().all()), None)
    if spoilt is not None:
        raise JudgeError(f"'{spoilt}' holds NaN or infinity", where=where, mend="train again, at a lower rate")
    network.load_state_dict(dict(tensors), strict=False)
    return network


@contextmanager
def _limited(most: int, where: str) -> Iterator[None]:
    """Refuse a network that claims more than ``most`` numbers, before memory is filled with them."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    count = 0

    def add(module: Any, name: str, parameter: Any) -> None:
        nonlocal count
        if parameter is not None and not parameter.numel():
            raise JudgeError("its architecture has a layer without weights", where=where, mend=_AGAIN)
        count += 0 if parameter is None else parameter.numel()
        if count > most:
            what = "its architecture is of a network much larger than its weights"
            raise JudgeError(what, where=where, mend=_AGAIN)

    handle = register_module_parameter_registration_hook(add)
    try:
        yield
    finally:
        handle.remove()


def choose_device(name: str | None) -> torch.device:
    """The device to run on; None: the first CUDA device where there is one, else the CPU.

    Raises:
        JudgeError: no such device here.
    """
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        mend = "take cpu, cuda or cuda:N, of a device that this machine has"
        raise JudgeError("cannot be used here", where=f"--device {name}", mend=mend) from error
    return device


def fingerprint(*parts: object) -> str:
    """A hash of what results depend on: weights' bytes, options, versions. 64 hexadecimal digits."""
    whole = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, default=str).encode()
        whole.update(hashlib.sha256(data).digest())
    return whole.hexdigest()


def detect_by_shape(
    pictures: Sequence[Picture],
    size: int,
    shape: Callable[[Picture], Hashable],
    detect: Callable[[list[Picture]], Iterable[tuple[Instance, ...]]],
) -> list[tuple[Instance, ...]]:
    """What ``detect`` finds in each of ``pictures``, given batches of one shape each, at most ``size`` large.

    Within a batch no picture is padded for another's sake: what is found in one does not depend on the others.
    """
    found: list[tuple[Instance, ...]] = [()] * len(pictures)
    groups: dict[Hashable, list[int]] = {}
    for index, picture in enumerate(pictures):
        groups.setdefault(shape(picture), []).append(index)
    for group in groups.values():
        for start in range(0, len(group), size):
            chosen = group[start : start + size]
            for index, instances in zip(chosen, detect([pictures[index] for index in chosen]), strict=True):
                found[index] = instances
    return found


def to_channels(pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
    """[B, H, W, 3] uint8 -> [B, 3, H, W] float32 in [0, 1]."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).contiguous().float() / 255


def check_options(where: str, *, batch: int, image_size: int | None, **shares: float) -> None:
    """Check the options that detectors share.

    Raises:
        JudgeError: a batch below 1, a size outside 32 to 8192 pixels, a share (``iou=0.7``) outside (0, 1).
    """
    if batch < 1:
        raise JudgeError(f"batch is {batch}", where=where, mend="take 1 or more")
    if image_size is not None and not 32 <= image_size <= 8192:
        raise JudgeError(f"image size is {image_size}", where=where, mend="take 32 to 8192 pixels")
    for name, share in shares.items():
        if not 0 < share < 1:
            raise JudgeError(f"{name.replace('_', ' ')} is {share}", where=where, mend="take a number in (0, 1)")


def _parse_header(text: str, where: str) -> Header:
    try:
        found = json.loads(text)
        header = Header(found["kind"], found["architecture"], tuple(found["categories"]), found["image_size"])
    except FAULTS as error:
        raise JudgeError("its header cannot be read", where=where, mend=_AGAIN) from error
    sound = (
        header.kind in ("yolo", "maskrcnn")
        and isinstance(header.architecture, dict)
        and header.categories
        and all(isinstance(name, str) for name in header.categories)
        and (header.image_size is None or (type(header.image_size) is int and 32 <= header.image_size <= 8192))
    )
    if not sound:
        raise JudgeError("its header is not sound", where=where, mend="write it again with 'judge train detector'")
    return header
