"""``judge doctor``: the packages that are installed, and the judges and detectors that can run."""

import os
import platform
import shutil
from importlib.metadata import distributions, metadata, version
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub.constants import HF_HUB_CACHE
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from judge.commands.console import say
from judge.config.values import CACHE
from judge.judges.names import EMBEDDED, FILES, PREFIXES, SEEING
from judge.masking import DETECTORS

# What needs an extra, beside judges of the extra "vision".
_EXTRAS = dict.fromkeys({*EMBEDDED, "linear"} - {SEEING}, "") | {
    "gt": "images",
    "maskrcnn": "detectors",
    "yolo": "ultralytics",
}
_EXTRAS |= {name: "networks" for name, module in FILES.items() if module == "encoders"}


def command() -> None:
    """Show installed packages, judges and detectors that can run, the GPU, Java, and the sizes of caches."""
    say(f"caption-judge {version('caption-judge')}, Python {platform.python_version()}")
    # OpenCV is two packages, of which either serves.
    here = {canonicalize_name(one.name).removesuffix("-headless"): one.version for one in distributions()}
    complete, found = {""}, metadata("caption-judge")
    for extra in (name for name in found.get_all("Provides-Extra") or () if name not in {"all", "dev", "docs"}):
        every = map(Requirement, found.get_all("Requires-Dist") or ())
        needs = [need for need in every if need.marker and need.marker.evaluate({"extra": extra})]
        lacks = [
            f"{need}".partition(";")[0]
            for need in needs
            if not (need.extras <= complete if need.extras else need.specifier.contains(here.get(need.name, "0"), True))
        ]
        complete |= set() if lacks else {extra}
        add = f"lacks {', '.join(lacks)}: pip install 'caption-judge[{extra}]'"
        say(f"[{extra}]: {add if lacks else ', '.join(f'{n.name} {here[n.name]}' for n in needs if not n.extras)}")
    for what, names in (
        ("judges", [*EMBEDDED, *FILES, *(f"{of}NAME" for of in PREFIXES)]),
        ("detectors", (*DETECTORS, "hf:NAME")),
    ):
        needed = {name: _EXTRAS.get(name, "vision") for name in names}
        say(f"{what}: {', '.join(n if of in complete else f'{n} (needs [{of}])' for n, of in needed.items())}")
    gpus = "not known without torch"
    if find_spec("torch"):
        import torch

        devices = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
        gpus = ", ".join(devices) or ("mps" if torch.backends.mps.is_available() else "none")
    say(f"GPU: {gpus}", f"Java, for METEOR: {shutil.which('java') or 'none'}")
    for cache in (CACHE, Path(HF_HUB_CACHE)):
        sizes = [os.lstat(Path(base, name)).st_size for base, _, files in os.walk(cache) for name in files]
        say(f"cache {cache}: {f'{sum(sizes) / 1e6:,.1f} MB' if cache.is_dir() else 'none'}")
