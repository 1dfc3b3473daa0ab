"""``judge caption``: captions of a folder of pictures, by any checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from judge.commands.captioner_checkpoints import settings_beside
from judge.commands.pictures import prepare_masking
from judge.config import CaptionConfig
from judge.corpus.entries import records
from judge.corpus.files import read_document
from judge.corpus.ids import canonical_id
from judge.errors import JudgeError, require
from judge.masking.detectors import Failures
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.hidden import HiddenPictures, find_hidden
from judge.masking.images import holds, list_pictures
from judge.training.processes import in_main_process
from judge.types import Progress
from judge.utils.files import remove_empty, write_whole, writing
from judge.utils.launch import is_main_process
from judge.utils.locks import Lock, is_left, short

_NOTES = ".partial"  # Ends the name of the file in which finished captions are kept until all are.


@dataclass(frozen=True, slots=True)
class CaptionedFolder:
    """How many captions ``judge caption`` wrote, how many of them are empty, and the failures by picture."""

    captions: int
    empty: int
    failures: Failures


def caption(config: CaptionConfig, *, progress: Progress | None = None) -> CaptionedFolder:
    """Caption the pictures of a folder; write COCO results to ``out`` and the settings beside it.

    The processes of a launch caption together; the main one finds what is hidden, and writes.

    Raises:
        JudgeError: what concerns the whole folder; nothing is written. Faults of single pictures are in the result's
            ``failures``; where none could be captioned, nothing is written either.
    """
    in_main_process(lambda: _check_out(config))
    require("vision", "torch", "transformers", "PIL", "cv2")
    from judge.captioning import caption_pictures
    from judge.captioning.writer import Writing
    from judge.judges.hf_models import check_captioner

    check_captioner(config.model, where=f"--model {config.model}")
    pictures, failures = in_main_process(lambda: _pictures(config, progress))
    how = Writing(**{setting.name: getattr(config, setting.name) for setting in fields(Writing)})
    with _place(config.out) as notes:
        done = caption_pictures(config.model, pictures, how, device=config.device, notes=notes, progress=progress)
        if done.captions:
            in_main_process(lambda: _finish(config, done.captions, notes))
    empty = sum(not text for text in done.captions.values())
    return CaptionedFolder(len(done.captions), empty, failures + done.failures)


@contextmanager
def _place(out: Path) -> Iterator[Path]:
    """The folder of ``out``, made if need be, and the file of notes beside it, which stays if captions are in it.

    The main process sees to it.
    """
    made = [folder for folder in out.absolute().parents if not folder.exists()]
    notes, lock = _notes(out), Lock.beside(out, f"--out {out}")

    def begin() -> None:
        with writing(f"--out {out}"):
            out.parent.mkdir(parents=True, exist_ok=True)
            stack.callback(remove_empty, made)
            lock.acquire()
            stack.callback(lock.release)
            notes.touch()
            stack.callback(_remove_blank, notes)

    with ExitStack() as stack:
        in_main_process(begin)
        yield notes


def _remove_blank(notes: Path) -> None:
    with suppress(OSError):
        if not notes.stat().st_size:
            notes.unlink()


def _notes(out: Path) -> Path:
    return out.with_name(f".{short(out.name)}{_NOTES}")


def _check_out(config: CaptionConfig) -> None:
    """Refuse an output path that cannot be used, before any work."""
    out, where = config.out, f"--out {config.out}"
    if out.is_dir():
        raise JudgeError("is a folder", where=where, mend="name a file")
    if is_main_process():
        lock = Lock.beside(out, where)
        lock.check()
        if is_left(lock.path):
            _tidy(out, lock)
    # Settings are written before captions: alone, beside notes, they are those of a run that was killed in between.
    killed = _notes(out).exists() and not out.exists()
    for path in (out, settings_beside(out)):
        if path.exists() and not config.overwrite and not killed:
            which = "is there already" if path == out else f"has {path.name} beside it already"
            raise JudgeError(which, where=where, mend="name another file, or add --overwrite")
        if path.resolve() in {read.resolve() for read in config.inputs()}:
            raise JudgeError(f"{path.name} is read", where=where, mend="name another file")


def _tidy(out: Path, lock: Lock) -> None:
    """What a killed command has left goes, unless the same command can go on from it."""
    from judge.captioning.notes import notes_files

    with writing(f"--out {out}"), lock.holding():
        notes = _notes(out)
        if out.exists() and notes.exists() and notes.stat().st_mtime_ns <= out.stat().st_mtime_ns:
            for file in notes_files(notes):
                file.unlink()


def _name_all(config: CaptionConfig) -> tuple[dict[str, str], Failures]:
    """Image id -> name of each picture to caption, and the pictures without a usable id.

    Those that a COCO file lists, by its ids; else all of the folder, by their names.
    """
    source = config.ids or config.instances
    if source is None:
        listed: list[tuple[object, str]] = [(name, name) for name in list_pictures(config.images)]
        failures: Failures = []
    else:
        listed, failures = _listed(source)
        if not any(holds(config.images, name) for _, name in listed):
            list_pictures(config.images)  # Where there is nothing at all, it says so in one line.
            what, mend = f"none of the pictures that {source} lists is there", "give the folder that they lie in"
            raise JudgeError(what, where=f"--images {config.images}", mend=mend)
    names: dict[str, str] = {}
    for key, name in listed:
        where, what = f"picture '{name}'", ""
        try:
            if (first := names.setdefault(canonical_id(key), name)) != name:
                what, mend = f"has the id of '{first}', '{canonical_id(key)}'", "rename one, or give ids with --ids"
        except ValueError as error:
            what, mend = f"its id {error}", "rename it"
        if what:
            failures.append((name, JudgeError(what, where=where, mend=mend)))
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


def _pictures(config: CaptionConfig, progress: Progress | None) -> tuple[HiddenPictures, Failures]:
    """The pictures as the captioner gets them, masked or not, without those at fault; and those."""
    names, failures = _name_all(config)
    if config.mask == "none":
        return HiddenPictures(config.images, names, max_pixels=config.max_pixels), failures
    batch = 8 if config.caption_batch == "auto" else config.caption_batch
    hiding, _, detector = prepare_masking(config, config.mask, batch=batch, progress=progress)
    failures += detector.strays if isinstance(detector, GroundTruth) else ()
    pictures = find_hidden(
        config.images,
        names,
        detector=detector,
        hiding=hiding,
        max_pixels=config.max_pixels,
        failures=failures,
        progress=progress,
    )
    return pictures, failures


def _finish(config: CaptionConfig, captions: Mapping[str, str], notes: Path) -> None:
    """Write the captions; the notes of them may go."""
    from judge.captioning import write_captions
    from judge.captioning.notes import notes_files

    with writing(f"--out {config.out}"):
        write_whole(settings_beside(config.out), config.to_yaml().encode())
    write_captions(config.out, captions)
    with suppress(OSError):  # The captions are there: notes that may not go do no harm.
        for file in notes_files(notes):
            file.unlink()
