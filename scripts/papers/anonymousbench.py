"""AnonymousBench (ImageCaptioner2, section 5.5.1) made anew: people of whom nobody can tell gender or race.

    python scripts/papers/anonymousbench.py prompts --out prompts.csv
    python scripts/papers/anonymousbench.py images --pipeline FOLDER_OR_NAME --out runs/anonymous
    python scripts/papers/anonymousbench.py sheet --images runs/anonymous
    python scripts/papers/anonymousbench.py keep --images runs/anonymous --answers anna.csv --answers ben.csv --out kept

The paper's own prompts and pictures are not released. ``prompts`` writes 500 of our own (``anonymousbench.yaml``);
``images`` has a text-to-image pipeline of diffusers make ten pictures of each (the paper: Stable Diffusion 2.1) and,
killed, goes on where it was; ``sheet`` asks people the paper's two questions about each; ``keep`` copies the pictures
of which most of them say that there is a human, and that gender and race are anonymous.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import yaml

from judge.commands.console import one_line_errors, show_progress
from judge.corpus.files import read_document
from judge.corpus.records import records
from judge.errors import JudgeError, require
from judge.masking.images import encode, list_images
from judge.masking.instances import Pixels
from judge.types import Progress
from judge.utils.cells import rows_csv
from judge.utils.files import write_whole, writing
from judge.utils.outputs import OutputFolder

SHIPPED = Path(__file__).with_suffix(".yaml")
WAYS = 4  # In how many ways the person of each activity is made anonymous.
PROMPTS, SETTINGS, KEPT = "prompts.csv", "settings.yaml", "kept.csv"
SHEET_COLUMNS = ("image", "human", "anonymous")
_STRIDE = 1000  # Prompt 17's picture 3 is 017003.png.
app = typer.Typer(add_completion=False, help=__doc__)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a picture is asked for; ``number`` from 1."""

    number: int
    text: str
    scene: str
    activity: str
    person: str


@dataclass(frozen=True, slots=True)
class Generation:
    """How pictures are made; with the prompts it decides them all; ``size`` in pixels along a side."""

    pipeline: str
    steps: int
    guidance: float
    size: int | None
    seed: int


def make_prompts() -> list[Prompt]:
    """The shipped prompts: every activity of every scene with four of the ways to be anonymous."""
    lists: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    found: list[Prompt] = []
    for place, (scene, activities) in enumerate(lists["scenes"].items()):
        for step, activity in enumerate(activities):
            for way in range(WAYS):
                # Within a scene each way once; each activity meets others of them in the next scene.
                person = lists["people"][(WAYS * step + way + 7 * place) % len(lists["people"])]
                template = lists["templates"][(place + step + way) % len(lists["templates"])]
                text = template.format(person=person, activity=activity, place=scene)
                found.append(Prompt(len(found) + 1, text, scene, activity, person))
    return found


def picture_name(prompt: int, index: int) -> str:
    """File name of a prompt's picture; a number, so that the image's id is one."""
    return f"{prompt * _STRIDE + index:06d}.png"


def seed_of(seed: int, prompt: int, index: int) -> int:
    """Seed of one picture, in [0, 2^32): the same whatever else is made, in whatever batch."""
    return int(np.random.SeedSequence([seed, prompt, index]).generate_state(1)[0])


def load_pipeline(reference: str, device: str) -> Any:
    """A text-to-image pipeline of diffusers, from a folder or the hub: safetensors alone, no code of others.

    Raises:
        JudgeError: diffusers is not installed; no such pipeline; no safetensors; one that takes no prompt.
    """
    require("generation", "diffusers", "transformers", "torch")
    import inspect

    import torch
    from diffusers import DiffusionPipeline, utils

    from judge.utils.hub import first_line, locate, quiet

    utils.logging.set_verbosity_error()
    utils.logging.disable_progress_bar()
    where, mend = f"--pipeline {reference}", "name a text-to-image pipeline of diffusers with .safetensors weights"
    kind = torch.float16 if device.startswith("cuda") else torch.float32
    loader: Any = DiffusionPipeline
    try:
        with quiet():
            pipeline = loader.from_pretrained(
                locate(reference, where), use_safetensors=True, trust_remote_code=False, torch_dtype=kind
            )
    except JudgeError:
        raise
    except Exception as error:  # Its readers raise whatever a strange folder leads them into.
        raise JudgeError(f"cannot be loaded ({first_line(error)})", where=where, mend=mend) from error
    if "prompt" not in inspect.signature(pipeline.__call__).parameters:
        raise JudgeError(f"{type(pipeline).__name__} takes no prompt", where=where, mend=mend)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


def make_images(
    generation: Generation, out: Path, *, per_prompt: int, prompts: Sequence[Prompt], batch: int, progress: Progress
) -> int:
    """Make the pictures that ``out/images`` lacks, each written whole; how many were made.

    Raises:
        JudgeError: as ``load_pipeline``; ``out`` holds something else, or pictures made otherwise.
    """
    import torch

    asked = {SETTINGS: yaml.safe_dump(asdict(generation), sort_keys=False), PROMPTS: _table(make_prompts())}
    _check(out, asked)
    lacking = [
        (prompt, [index for index in range(per_prompt) if not _path(out, prompt, index).is_file()])
        for prompt in prompts
    ]
    total = sum(len(indices) for _, indices in lacking)
    if not total:
        return 0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pipeline, done = load_pipeline(generation.pipeline, device), 0
    with writing(out):
        (out / "images").mkdir(parents=True, exist_ok=True)
        for name, text in asked.items():
            write_whole(out / name, text.encode())
    for prompt, indices in lacking:
        for first in range(0, len(indices), batch):
            these = indices[first : first + batch]
            for index, pixels in zip(these, _pictures(pipeline, generation, prompt, these), strict=True):
                with writing(out):
                    write_whole(_path(out, prompt, index), encode(pixels))
            done += len(these)
            progress("making pictures", done, total)
    return done


def _pictures(pipeline: Any, generation: Generation, prompt: Prompt, indices: Sequence[int]) -> list[Pixels]:
    """Pictures of one prompt, [H, W, 3] each, one an index."""
    import torch

    from judge.utils.hub import first_line, quiet

    # Noise is drawn on the CPU: the same on any device.
    noise = [torch.Generator("cpu").manual_seed(seed_of(generation.seed, prompt.number, index)) for index in indices]
    sides = {} if generation.size is None else {"height": generation.size, "width": generation.size}
    try:
        with quiet():
            made = pipeline(
                prompt=[prompt.text] * len(indices), generator=noise, num_inference_steps=generation.steps,
                guidance_scale=generation.guidance, output_type="pil", **sides,
            )  # fmt: skip
    except (TypeError, ValueError, RuntimeError) as error:
        mend = "give another --size, or a smaller --batch where memory is short"
        what = f"cannot make pictures ({first_line(error)})"
        raise JudgeError(what, where=f"--pipeline {generation.pipeline}", mend=mend) from error
    return [np.asarray(image.convert("RGB")) for image in made.images]


def _path(out: Path, prompt: Prompt, index: int) -> Path:
    return out / "images" / picture_name(prompt.number, index)


def _check(out: Path, asked: Mapping[str, str]) -> None:
    """See that ``out`` is new, or was begun in the same way."""
    if out.exists() and not (out.is_dir() and ((out / SETTINGS).is_file() or not any(out.iterdir()))):
        raise JudgeError("holds something else", where=f"--out {out}", mend="name another folder")
    for name, text in asked.items():
        if (out / name).is_file() and (out / name).read_text(encoding="utf-8") != text:
            what = f"holds pictures made with another {name}"
            raise JudgeError(what, where=f"--out {out}", mend="name another folder, or give the same options")


def _table(prompts: Sequence[Prompt]) -> str:
    return rows_csv([field.name for field in fields(Prompt)], [[*asdict(prompt).values()] for prompt in prompts])


def keep_images(folder: Path, answers: Sequence[Path], out: Path) -> Mapping[str, int]:
    """Copy the images to which most of their raters say yes twice to ``out``; counts of what became of them all.

    Raises:
        JudgeError: as ``read_votes``; ``out`` is taken; no image is kept.
    """
    names = list_images(folder / "images")
    votes = read_votes(answers, names)
    kept = {name: of for name, of in votes.items() if 2 * sum(of) > len(of)}
    if not kept:
        raise JudgeError("no image is kept", where=", ".join(map(str, answers)), mend="have more of them rated")
    made = OutputFolder(out, what="folder of images kept")
    made.check()
    made.begin()
    with made.working(), made.writing():
        (made.partial / "images").mkdir()
        for name in kept:
            shutil.copyfile(folder / "images" / name, made.partial / "images" / name)
        table = rows_csv(["image", "yes", "raters"], [[name, sum(of), len(of)] for name, of in kept.items()])
        (made.partial / KEPT).write_text(table, encoding="utf-8")
        made.publish()
    return {"kept": len(kept), "left out": len(votes) - len(kept), "not rated": len(names) - len(votes)}


def read_votes(paths: Sequence[Path], names: Sequence[str]) -> dict[str, list[bool]]:
    """Image -> of each rater who answered, whether both answers are yes. Images without any answer are left out.

    Raises:
        JudgeError: a file that cannot be read, or lacks a column; an unknown image or answer.
    """
    votes: dict[str, list[bool]] = {}
    for path in paths:
        document = read_document(path)
        for number, row in enumerate(records(document.value, source=document.source, shapes="give a filled sheet"), 1):
            where = f"{document.source}, record {number}"
            missing = [name for name in SHEET_COLUMNS if name not in row]
            if missing:
                raise JudgeError(f"no column '{missing[0]}'", where=where, mend="give a sheet that was filled in")
            image, *given = (str(row[name] or "").strip().casefold() for name in SHEET_COLUMNS)
            if image not in names or not {*given} <= {"yes", "no", ""}:
                raise JudgeError(f"'{image}: {' '.join(given)}'", where=where, mend="answer yes or no for these images")
            human, anonymous = given
            # Who sees a human and leaves the second question out has not rated the image.
            if human == "no" or (human and anonymous):
                votes.setdefault(image, []).append(human == anonymous == "yes")
    return {name: votes[name] for name in names if name in votes}


@app.command("prompts")
def prompts_command(out: Annotated[Path | None, typer.Option(help="CSV file; printed where not given")] = None) -> None:
    """The 500 prompts."""
    with one_line_errors():
        if out is None:
            for prompt in make_prompts():
                print(prompt.text)
            return
        with writing(out):
            write_whole(out, _table(make_prompts()).encode())
        print(f"500 prompts are in {out}")


@app.command("images")
def images_command(  # noqa: PLR0913, PLR0917  # options
    pipeline: Annotated[str, typer.Option(help="folder of a text-to-image pipeline, or its name on the hub")],
    out: Annotated[Path, typer.Option(help="folder for the pictures; the same command goes on in it")],
    per_prompt: Annotated[int, typer.Option(min=1, max=_STRIDE)] = 10,
    steps: Annotated[int, typer.Option(min=1)] = 50,
    guidance: float = 7.5,
    size: Annotated[int | None, typer.Option(min=8, help="pixels along a side; else the pipeline's own")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    batch: Annotated[int, typer.Option(min=1, help="pictures at a time")] = 5,
    first: Annotated[int, typer.Option(min=1, help="of the prompts, the first so many alone")] = 500,
) -> None:
    """Ten pictures of each prompt."""
    with one_line_errors(), show_progress() as progress:
        generation = Generation(pipeline, steps, guidance, size, seed)
        prompts = make_prompts()[:first]
        made = make_images(generation, out, per_prompt=per_prompt, prompts=prompts, batch=batch, progress=progress)
        print(f"{made} pictures made; all {len(prompts) * per_prompt} are in {out / 'images'}")


@app.command("keep")
def keep_command(
    images: Annotated[Path, typer.Option(help="what the step images made")],
    answers: Annotated[list[Path], typer.Option(help="a filled sheet; repeatable")],
    out: Annotated[Path, typer.Option(help="folder for the pictures kept")],
) -> None:
    """The pictures of which most raters say: a human, gender and race anonymous."""
    with one_line_errors():
        counts = keep_images(images, answers, out)
        print(f"{', '.join(f'{name} {number}' for name, number in counts.items())}; see {out}")


@app.command("sheet")
def sheet_command(images: Annotated[Path, typer.Option(help="what the step images made")]) -> None:
    """The two filter questions about each image, as a table to fill in: is there a human, and anonymous?"""
    with one_line_errors():
        path = images / "rating.csv"
        if path.exists():
            raise JudgeError("is there already", where=str(path), mend="have it filled in, or move it away")
        rows = [[name, "", ""] for name in list_images(images / "images")]
        with writing(path):
            write_whole(path, rows_csv(SHEET_COLUMNS, rows).encode())
        print(f"{len(rows)} images are in {path}: raters write yes or no into 'human' and 'anonymous'")


if __name__ == "__main__":
    app()
