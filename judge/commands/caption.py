"""``judge caption``: captions of a folder of pictures, by any checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from judge.commands.captioner_checkpoints import settings_beside
from judge.commands.pictures import choose_hiding, open_detector
from judge.config import CaptionConfig
from judge.corpus.entries import records
from judge.corpus.files import read_document
from judge.corpus.ids import canonical_id
from judge.errors import JudgeError, require
from judge.masking.detectors import detect_each
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.hidden import HiddenPictures
from judge.masking.images import list_pictures, read_picture
from judge.masking.instances import Instance
from judge.types import Progress
from judge.utils.files import write_whole

Failures = list[tuple[str, JudgeError]]


@dataclass(frozen=True, slots=True)
class CaptionedFolder:
    """What ``judge caption`` made: how many captions, how many of them empty, and by picture what went wrong."""

    captions: int
    empty: int
    failures: Failures


def caption(config: CaptionConfig, *, progress: Progress | None = None) -> CaptionedFolder:
    """Caption the pictures of a folder; write COCO results to ``out`` and the settings beside it.

    Raises:
        JudgeError: what concerns the whole folder; nothing is written. Faults of single pictures are in the result's
            ``failures``; where none could be captioned, nothing is written either.
    """
    _check_out(config)
    require("vision", "torch", "transformers", "PIL", "cv2")
    names, failures = _name_all(config)
    pictures = _see(config, names, failures, progress)
    with _place(config.out) as notes:
        captions = _write(config, pictures, notes, failures, progress)
    return CaptionedFolder(len(captions), sum(not text for text in captions.values()), failures)


@contextmanager
def _place(out: Path) -> Iterator[Path]:
    """The folder of ``out``, made if need be, and the file of notes beside it, gone once the captions are written.

    Whatever else ends the work leaves the notes, if there are any captions in them.
    """
    made = [folder for folder in out.absolute().parents if not folder.exists()]
    notes = _notes_beside(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        notes.touch()
        yield notes
        notes.unlink()
    except OSError as error:
        mend = "name a file in a folder that you own, on a disk with room"
        raise JudgeError(f"cannot be written ({error.strerror})", where=f"--out {out}", mend=mend) from error
    finally:
        with suppress(OSError):  # Folders that hold something by now stay.
            if notes.is_file() and not notes.stat().st_size:
                notes.unlink()
            for folder in made:
                folder.rmdir()


def _notes_beside(out: Path) -> Path:
    """Where finished captions are kept until all are."""
    return out.with_name(f".{out.name}.partial")


def _check_out(config: CaptionConfig) -> None:
    """Refuse a place that cannot be used, before any work."""
    out, where = config.out, f"--out {config.out}"
    if out.is_dir():
        raise JudgeError("is a folder", where=where, mend="name a file")
    # Settings are written before captions: alone, beside notes, they are those of a run that was killed in between.
    killed = _notes_beside(out).exists() and not out.exists()
    for path in (out, settings_beside(out)):
        if path.exists() and not config.overwrite and not killed:
            which = "is there already" if path == out else f"has {path.name} beside it already"
            raise JudgeError(which, where=where, mend="name another file, or add --overwrite")
        if path.resolve() in {read.resolve() for read in config.inputs()}:
            raise JudgeError(f"{path.name} is read", where=where, mend="name another file")


def _name_all(config: CaptionConfig) -> tuple[dict[str, str], Failures]:
    """Image id -> picture, of all that shall be captioned; and the pictures that cannot be named.

    Those that a COCO file lists, by its ids; else all of the folder, by their names.
    """
    source = config.ids or config.instances
    if source is None:
        listed: list[tuple[object, str]] = [(name, name) for name in list_pictures(config.images)]
        failures: Failures = []
    else:
        listed, failures = _listed(source)
        if not any((config.images / name).exists() for _, name in listed):
            list_pictures(config.images)  # Where there is nothing at all, it says so in one line.
            what, mend = f"none of the pictures that {source} lists is there", "give the folder that they lie in"
            raise JudgeError(what, where=f"--images {config.images}", mend=mend)
    names: dict[str, str] = {}
    for key, name in listed:
        where = f"picture '{name}'"
        try:
            first = names.setdefault(canonical_id(key), name)
        except ValueError as error:
            failures.append((name, JudgeError(f"its id {error}", where=where, mend="rename it")))
        else:
            if first != name:
                what = f"has the id of '{first}', '{canonical_id(key)}'"
                failures.append((name, JudgeError(what, where=where, mend="rename one, or give ids with --ids")))
    return names, failures


def _listed(path: Path) -> tuple[list[tuple[object, str]], Failures]:
    """(id, name) of each picture in a COCO file of any kind, and the records that name none."""
    document = read_document(path)
    images = document.value.get("images") if isinstance(document.value, dict) else None
    if not isinstance(images, list):
        raise JudgeError("lists no 'images'", where=document.source, mend="give a COCO file: captions or instances")
    listed: list[tuple[object, str]] = []
    failures: Failures = []
    for number, row in enumerate(records(images, source=document.source)):
        name = row.get("file_name")
        if isinstance(name, str) and name:
            listed.append((row.get("id"), name))
        else:
            where = f"images, record {number}"
            fault = JudgeError("'file_name' is no text", where=f"{path}, {where}", mend="give the picture's name")
            failures.append((where, fault))
    return listed, failures


def _see(config: CaptionConfig, names: dict[str, str], failures: Failures, progress: Progress | None) -> HiddenPictures:
    """The pictures as the captioner shall see them, without those that cannot be."""
    plain = HiddenPictures(config.images, names, max_pixels=config.max_pixels)
    if config.mask == "none":
        return plain
    hiding, _ = choose_hiding(config, config.mask, seed=config.seed)
    detector = open_detector(
        config.detector, config, hiding.labels, device=config.device, batch=config.batch_size, progress=progress
    )
    failures += detector.strays if isinstance(detector, GroundTruth) else ()
    hidden: dict[str, tuple[Instance, ...]] = {}
    wanted = list(names.values())
    for start in range(0, len(wanted), detector.batch):
        batch = []
        for name in wanted[start : start + detector.batch]:
            try:
                batch.append(read_picture(config.images, name, max_pixels=config.max_pixels))
            except JudgeError as error:
                failures.append((name, error))
        for picture, found in zip(batch, detect_each(detector, batch, failures), strict=True):
            if found is not None:
                hidden[picture.name] = hiding.chosen(found)
        if progress:
            progress("looking for people", start + len(batch), len(wanted))
    seen = {image: name for image, name in names.items() if name in hidden}
    return replace(plain, names=seen, hiding=hiding, hidden=hidden)


def _write(
    config: CaptionConfig, pictures: HiddenPictures, notes: Path, failures: Failures, progress: Progress | None
) -> dict[str, str]:
    """Caption, and write both files."""
    from judge.captioning import Writing, caption_pictures, write_captions

    writing = Writing(
        prompt=config.prompt,
        beams=config.beams,
        max_tokens=config.max_tokens,
        batch_size=config.batch_size,
        precision=config.precision,
    )
    done = caption_pictures(config.model, pictures, writing, device=config.device, notes=notes, progress=progress)
    failures += done.failures
    if done.captions:
        write_whole(settings_beside(config.out), config.to_yaml().encode())
        write_captions(config.out, done.captions)
    return done.captions
