"""AnonymousBench (ImageCaptioner2, section 5.5.1) made anew: images of people whose gender and race nobody can see.

    python scripts/papers/anonymousbench.py prompts --out prompts.csv
    python scripts/papers/anonymousbench.py images --pipeline FOLDER_OR_NAME --out runs/anonymous
    python scripts/papers/anonymousbench.py sheet --images runs/anonymous
    python scripts/papers/anonymousbench.py keep --images runs/anonymous --answers anna.csv --answers ben.csv --out kept

The paper's own prompts and images are not released. ``prompts`` writes 500 of our own (``anonymousbench.yaml``);
``images`` makes ten images of each with a text-to-image pipeline of diffusers (the paper: Stable Diffusion 2.1), and
resumes after a kill; ``sheet`` writes a table with the paper's two questions about each image; ``keep`` copies the
images of which most raters say that there is a human, and that gender and race are anonymous.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
import yaml

from judge.commands.console import one_line_errors, show_progress
from judge.corpus.columns import chosen_column
from judge.corpus.files import read_document
from judge.corpus.records import records
from judge.errors import JudgeError, require
from judge.masking.images import encode, list_images
from judge.types import Progress
from judge.utils.cells import rows_csv
from judge.utils.files import write_whole, writing
from judge.utils.outputs import OutputFolder

SHIPPED = Path(__file__).with_suffix(".yaml")
WAYS = 4  # Ways in which the person of each activity is made anonymous.
SHEET_COLUMNS = ("image", "human", "anonymous")
app = typer.Typer(add_completion=False, help=__doc__)


class Prompt(NamedTuple):
    """What an image is to show; ``number`` from 1."""

    number: int
    text: str
    scene: str
    activity: str
    person: str


class Generation(NamedTuple):
    """How images are made; with the prompts it determines them all; ``size`` in pixels along a side."""

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


def prompts_csv() -> str:
    """The shipped prompts as CSV."""
    return rows_csv(Prompt._fields, map(list, make_prompts()))


def seed_of(seed: int, prompt: int, index: int) -> int:
    """Seed of one image, in [0, 2^32): the same whatever else is made, in whatever batch."""
    return int(np.random.SeedSequence([seed, prompt, index]).generate_state(1)[0])


def load_pipeline(reference: str, device: str) -> Any:
    """A text-to-image pipeline of diffusers, from a folder or the hub: safetensors alone, no foreign code.

    Raises:
        JudgeError: diffusers is not installed; no such pipeline; no safetensors.
    """
    require("generation", "diffusers", "transformers", "torch")
    import torch
    from diffusers import DiffusionPipeline, utils

    from judge.utils.hub import first_line, locate, quiet

    utils.logging.set_verbosity_error()
    utils.logging.disable_progress_bar()
    where, mend = f"--pipeline {reference}", "name a text-to-image pipeline of diffusers with .safetensors weights"
    settings: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": False}
    settings["torch_dtype"] = torch.float16 if device == "cuda" else torch.float32
    loader: Any = DiffusionPipeline
    try:
        with quiet():
            pipeline = loader.from_pretrained(locate(reference, where), **settings)
    except JudgeError:
        raise
    except Exception as error:  # Its readers raise whatever a malformed folder leads to.
        raise JudgeError(f"cannot be loaded ({first_line(error)})", where=where, mend=mend) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


def make_images(
    generation: Generation, out: Path, *, per_prompt: int, prompts: Sequence[Prompt], batch: int, progress: Progress
) -> int:
    """Make the images that ``out/images`` lacks, and return their number. Prompt 17's image 3 is 017003.png.

    Raises:
        JudgeError: as ``load_pipeline``; ``out`` holds images made with other settings.
    """
    import torch

    for name, text in {"settings.yaml": yaml.safe_dump(generation._asdict()), "prompts.csv": prompts_csv()}.items():
        path = out / name
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            mend = "name another folder, or give the same options"
            raise JudgeError(f"holds images made with another {name}", where=f"--out {out}", mend=mend)
        with writing(out):
            (out / "images").mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())

    def path_of(prompt: Prompt, index: int) -> Path:
        return out / "images" / f"{1000 * prompt.number + index:06d}.png"

    batches = []
    for prompt in prompts:
        missing = [index for index in range(per_prompt) if not path_of(prompt, index).is_file()]
        batches += [(prompt, missing[first : first + batch]) for first in range(0, len(missing), batch)]
    if not batches:
        return 0
    pipeline, done = load_pipeline(generation.pipeline, "cuda" if torch.cuda.is_available() else "cpu"), 0
    total = sum(len(indices) for _, indices in batches)
    for prompt, indices in batches:
        for index, image in zip(indices, _generate(pipeline, generation, prompt, indices), strict=True):
            with writing(out):
                write_whole(path_of(prompt, index), encode(np.asarray(image.convert("RGB"))))
        done += len(indices)
        progress("making images", done, total)
    return done


def _generate(pipeline: Any, generation: Generation, prompt: Prompt, indices: Sequence[int]) -> list[Any]:
    """Images of one prompt, one an index."""
    import torch

    from judge.utils.hub import first_line, quiet

    # Noise is drawn on the CPU: the same on any device.
    noise = [torch.Generator("cpu").manual_seed(seed_of(generation.seed, prompt.number, index)) for index in indices]
    settings: dict[str, Any] = {} if generation.size is None else {"height": generation.size, "width": generation.size}
    settings |= {"num_inference_steps": generation.steps, "guidance_scale": generation.guidance, "output_type": "pil"}
    try:
        with quiet():
            return list(pipeline(prompt=[prompt.text] * len(indices), generator=noise, **settings).images)
    except (TypeError, ValueError, RuntimeError) as error:
        mend = "give another --size, or a smaller --batch where memory is short"
        what = f"cannot make images ({first_line(error)})"
        raise JudgeError(what, where=f"--pipeline {generation.pipeline}", mend=mend) from error


def keep_images(folder: Path, answers: Sequence[Path], out: Path) -> Mapping[str, int]:
    """Copy the images to which most of their raters say yes twice to ``out``; counts of what became of them all.

    Raises:
        JudgeError: as ``read_votes``; ``out`` exists; no image is kept.
    """
    names = list_images(folder / "images")
    votes = read_votes(answers, names)
    kept = {name: of for name, of in votes.items() if 2 * sum(of) > len(of)}
    if not kept:
        raise JudgeError("no image is kept", where=", ".join(map(str, answers)), mend="have more of them rated")
    made = OutputFolder(out, what="folder of images kept")
    made.check()
    with made.making():
        (made.partial / "images").mkdir()
        for name in kept:
            shutil.copyfile(folder / "images" / name, made.partial / "images" / name)
        table = rows_csv(["image", "yes", "raters"], [[name, sum(of), len(of)] for name, of in kept.items()])
        made.write({"kept.csv": table})
    return {"kept": len(kept), "left out": len(votes) - len(kept), "not rated": len(names) - len(votes)}


def read_votes(paths: Sequence[Path], names: Sequence[str]) -> dict[str, list[bool]]:
    """Image -> of each rater who answered, whether both answers are yes. Images without any answer are left out.

    Raises:
        JudgeError: a file that cannot be read, or lacks a column; an unknown image or answer.
    """
    votes: dict[str, list[bool]] = {}
    for path in paths:
        document = read_document(path)
        rows = records(document.value, source=document.source, shapes="give a filled sheet")
        columns = [chosen_column(rows, name, source=document.source) for name in SHEET_COLUMNS]
        for row in rows:
            image, human, anonymous = (str(row.get(name) or "").strip().casefold() for name in columns)
            if image not in names or not {human, anonymous} <= {"yes", "no", ""}:
                mend = "answer yes or no for these images"
                raise JudgeError(f"'{image}: {human} {anonymous}'", where=str(path), mend=mend)
            # A rater who sees a human and leaves the second question out has not rated the image.
            if human == "no" or (human and anonymous):
                votes.setdefault(image, []).append(human == anonymous == "yes")
    return {name: votes[name] for name in names if name in votes}


@app.command("prompts")
def prompts_command(out: Annotated[Path, typer.Option(help="CSV file")]) -> None:
    """The 500 prompts."""
    with one_line_errors(), writing(out):
        write_whole(out, prompts_csv().encode())


@app.command("images")
def images_command(  # noqa: PLR0913, PLR0917  # options
    pipeline: Annotated[str, typer.Option(help="folder of a text-to-image pipeline, or its name on the hub")],
    out: Annotated[Path, typer.Option(help="folder for the images; the same command resumes in it")],
    per_prompt: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    steps: Annotated[int, typer.Option(min=1)] = 50,
    guidance: float = 7.5,
    size: Annotated[int | None, typer.Option(min=8, help="pixels along a side; else the pipeline's own")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    batch: Annotated[int, typer.Option(min=1, help="images at a time")] = 5,
    first: Annotated[int, typer.Option(min=1, help="only so many of the prompts")] = 500,
) -> None:
    """Ten images of each prompt."""
    with one_line_errors(), show_progress() as progress:
        generation, prompts = Generation(pipeline, steps, guidance, size, seed), make_prompts()[:first]
        made = make_images(generation, out, per_prompt=per_prompt, prompts=prompts, batch=batch, progress=progress)
        print(f"{made} images made; all {len(prompts) * per_prompt} are in {out / 'images'}")


@app.command("keep")
def keep_command(
    images: Annotated[Path, typer.Option(help="folder that the step images made")],
    answers: Annotated[list[Path], typer.Option(help="a filled sheet; repeatable")],
    out: Annotated[Path, typer.Option(help="folder for the images kept")],
) -> None:
    """The images of which most raters say: a human, gender and race anonymous."""
    with one_line_errors():
        counts = keep_images(images, answers, out)
        print(f"{', '.join(f'{name} {number}' for name, number in counts.items())}; see {out}")


@app.command("sheet")
def sheet_command(images: Annotated[Path, typer.Option(help="folder that the step images made")]) -> None:
    """The two questions about each image, as a table to fill in: is there a human, and anonymous?"""
    with one_line_errors():
        path = images / "rating.csv"
        if path.exists():
            raise JudgeError("exists already", where=str(path), mend="have it filled in, or move it away")
        rows = [[name, "", ""] for name in list_images(images / "images")]
        with writing(path):
            write_whole(path, rows_csv(SHEET_COLUMNS, rows).encode())
        print(f"{len(rows)} images are in {path}: raters write yes or no into 'human' and 'anonymous'")


if __name__ == "__main__":
    app()
