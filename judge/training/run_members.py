"""Train many judges, shared out among the processes of a launch or the cores of a machine; store answers and weights.

Each judge is trained on one thread, so that any number of processes and workers gives the same numbers. Large judges
(``Recipe.sharing`` "data") are the exception: all processes and threads train one of them together, unless each GPU has
a judge of its own to train.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import mkstemp
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from judge.errors import JudgeError
from judge.evidence import Slot
from judge.judges import NOTHING, Explanation, Judge, Keep
from judge.metrics.scores import VALIDATION_LOSS, Judged
from judge.training.judge_file import LEARNT, Saved, describe_features, describe_member, save_network
from judge.training.launch import gather, make_accelerator, raise_together, uses_fsdp
from judge.training.member import (
    DIVERGED,
    Member,
    TrainingSetup,
    assign,
    explain_again,
    identify,
    owner_of,
)
from judge.types import Predictions, Progress
from judge.utils.identity import digest_of, key_of
from judge.utils.launch import computes_on, is_main_process, launched, promised
from judge.utils.parallel import give_back, threads, unordered, usable_cores
from judge.utils.tensors import read_notes, read_sound, read_tensors, write_tensors

if TYPE_CHECKING:
    from judge.training.checkpoint import History
    from judge.training.loop import NetworkJudge

_MOST_LOADERS = 8
# In place of the suffix of a member's answers: its weights, and the checkpoint of its unfinished training.
_WEIGHTS, _TRAINING = ".weights.safetensors", ".training.safetensors"
# At most so many batches of joint judges are sent to a worker together, so that the captions they share are sent once;
# each worker has at least so many such groups, so that all workers end at about the same time.
TOGETHER, _GROUPS = 4, 2
_logger = logging.getLogger("judge")
R = TypeVar("R")
Then = Callable[[Member, Predictions], R]
"""Makes the result of a member from its predictions, in the worker: results are small."""
Equal = list[Member]
"""Members with equal evidence, split and seed: one judge."""
Batch = list[Equal]
"""Judges that are trained together: one, or all of a captioner, if they are trained jointly."""
Finished = tuple[dict[str, list[R]], int]
"""The results of a batch, by key, and the number of judges trained."""


def prepare_members(
    members: Sequence[Member], setup: TrainingSetup, progress: Progress | None = None
) -> tuple[list[Member], TrainingSetup]:
    """The members with their keys, and a setup with the features that they need and the sharing that suits them."""
    # Processes that train one judge wait for each other at every step: if there are enough judges, each process of a
    # launch on GPUs trains whole ones, unless weights are sharded.
    large = sum(setup.sharing_of(member.judge) == "data" for member in members)
    if not setup.sharing and 1 < promised() <= large and not uses_fsdp() and computes_on() != "cpu":
        setup = replace(setup, sharing="members")
    judges = {member.judge.name: member.judge for member in members}.values()
    if not setup.precomputed and any("image" in judge.modalities or judge.reader for judge in judges):
        from judge.training.features import precompute

        found = precompute(members, setup.materials, setup.features, progress)
        setup = replace(setup, precomputed=found)
    each = zip(members, identify(members, setup), strict=True)
    return [replace(one, key=key_of(of), ingredients={} if one.is_refit else of) for one, of in each], setup


def train_members(
    members: Sequence[Member], setup: TrainingSetup, *, then: Then[R], progress: Progress | None = None
) -> list[R]:
    """Train and score every member, and return the results in their order, in every process of a launch.

    Args:
        members: named by :func:`prepare_members` or not. Two with the same evidence, split and seed are trained once.
        setup: how.
        then: makes the result of a member from its predictions on its ``test()`` samples; a function at the top of a
            module, or a partial of one, as it is sent to other processes.
        progress: called when a judge of this process is finished, and by another thread, every second, with the steps
            that networks have been trained.
    """
    if not members:
        return []
    if not members[0].key:
        members, setup = prepare_members(members, setup, progress)
    if launched():
        accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
        # Keys may depend on the machine, e.g. on times of files: those of the main process count everywhere.
        keys = gather([member.key for member in members])[0]
        members = [replace(member, key=key) for member, key in zip(members, keys, strict=True)]
    if setup.store and is_main_process():
        for reason in explain_again(members, setup.store):
            _logger.warning(reason)
    equal: dict[str, Equal] = {}
    for member in members:
        equal.setdefault(member.key, []).append(member)
    batches = list(_batches(list(equal.values())))
    if launched():  # All processes train the first ones together, and then each of them its share of the others.
        first = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "data"]
        rest = [batch for batch in batches if setup.sharing_of(batch[0][0].judge) == "members"]
        second = rest[accelerator.process_index :: accelerator.num_processes]
    else:  # Networks, which may share a GPU, after the others.
        first = [batch for batch in batches if not batch[0][0].judge.recipe]
        second = [batch for batch in batches if batch[0][0].judge.recipe]
    found: dict[str, list[R]] = {}
    with _showing([*first, *second], setup, progress) as (counted, show):
        # An error in a shared training ends this process, and its launcher the others, which wait for it.
        for part, ending in ((first, nullcontext()), (second, raise_together())):
            with ending:
                for results, trained in _in_workers(part, counted, then):
                    found |= results
                    show(trained)
    each = {key: iter(results) for part in gather(found) for key, results in part.items()}
    return [next(each[member.key]) for member in members]


@contextmanager
def _showing(
    batches: Sequence[Batch], setup: TrainingSetup, progress: Progress | None
) -> Iterator[tuple[TrainingSetup, Callable[[int], None]]]:
    """Show progress: judges that are trained, and steps of networks; nothing of judges whose answers are stored.

    Yields a setup that counts steps, and what to call with the number of judges when a batch is finished.
    """
    if progress is None:
        yield setup, lambda _: None
        return
    left = [batch for batch in batches if not are_stored([same[0] for same in batch], setup)]
    total, expected = sum(map(len, left)), sum(setup.steps_of(same[0]) for same in chain.from_iterable(left))
    stored = sum(map(len, batches)) - total
    more = f"{stored:,} stored" if stored else ""
    handle, name = mkstemp(prefix="judge-steps-")
    done, over, lock = 0, Event(), Lock()

    def show(trained: int = 0) -> None:
        nonlocal done
        with lock:
            done = min(done + trained, total)
            # Training may end early, and captions may be missing.
            steps = expected if done == total else min(os.fstat(handle).st_size, expected)
            if not total:
                progress("reading judges", 0, 0)
            elif steps:
                known = "; ".join(filter(None, (f"{done} of {total}", more)))
                progress(f"training judges ({known}), steps", steps, expected)
            else:
                progress(f"training judges ({more})" if more else "training judges", done, total)

    def watch() -> None:
        while not over.wait(1):
            with suppress(Exception):  # The caller's function failed; the main thread calls it too.
                show()

    thread = Thread(target=watch, daemon=True)
    try:
        show()
        thread.start()
        yield replace(setup, steps=Path(name)), show
    finally:
        over.set()
        if thread.ident:
            thread.join()
        os.close(handle)
        Path(name).unlink()


def _in_workers(batches: Sequence[Batch], setup: TrainingSetup, then: Then[R]) -> Iterator[Finished[R]]:
    """Train batches, several at a time in processes of their own; in a launch one by one in this process."""
    from joblib import delayed

    # By default one a core; one in all for networks on a GPU, where they would compete, and for large ones.
    recipes = [recipe for batch in batches if (recipe := batch[0][0].judge.recipe)]
    alone = recipes and (computes_on() != "cpu" or any(recipe.sharing == "data" for recipe in recipes))
    workers = min(setup.workers or (1 if alone else usable_cores()), max(1, len(batches)))
    if launched() or workers <= 1:
        yield from (_work(batch, setup, then) for batch in batches)
        return
    joint = all(batch[0][0].judge.joint for batch in batches)
    together = min(TOGETHER, max(1, len(batches) // (_GROUPS * workers))) if joint else "auto"
    calls = (delayed(_work)(batch, _for_worker(batch[0][0], setup), then) for batch in batches)
    names = dict.fromkeys(batch[0][0].judge.name for batch in batches)
    what = f"training {', '.join(names)}"
    yield from unordered(calls, workers, what=what, together=together)


def _for_worker(member: Member, setup: TrainingSetup) -> TrainingSetup:
    """The part of a setup that a worker needs: features of its judge; masks, if its judge reads images itself."""
    judge, features = member.judge, dict[str, Any]()
    if setup.precomputed:
        features = {name: of for name, of in setup.precomputed.features.items() if name == judge.name}
        setup = replace(setup, precomputed=replace(setup.precomputed, features=features))
    if "image" in judge.modalities and not (judge.backbone or features):
        return setup
    return replace(setup, materials=replace(setup.materials, images=None))


def _batches(judges: Sequence[Equal]) -> Iterator[Batch]:
    """Networks one by one; judges trained jointly, for one captioner's evidence and draw of folds, together."""
    joint: dict[tuple[str, int, bool, int | None], Batch] = {}
    for same in judges:
        member = same[0]
        if member.judge.joint is None:
            yield [same]
        else:
            evidence = member.samples.evidence if isinstance(member.samples, Slot) else member.samples
            seed = None if member.is_refit else member.seed  # The answers of a refit are in one file.
            joint.setdefault((member.judge.name, id(evidence), member.validates, seed), []).append(same)
    yield from joint.values()


def _work(batch: Batch, setup: TrainingSetup, then: Then[R]) -> Finished[R]:
    members = [same[0] for same in batch]
    trained = 0 if are_stored(members, setup) else len(batch)
    found = load_answers(members, setup)
    if setup.sharing_of(members[0].judge) == "data":
        # Machines may have disks of their own: all processes train it, or none does.
        found = gather(found)[0]
    if new := [place for place, answers in enumerate(found) if answers is None]:
        # Judges that choose together are all trained.
        fitted = fit_jointly(members, setup) if members[0].judge.joint else [fit_member(members[0], setup)]
        store_answers([members[place] for place in new], setup, [fitted[place] for place in new])
        found = [*fitted]
    results = {
        same[0].key: [then(member, predictions) for member in same]
        for same, predictions in zip(batch, cast("list[Predictions]", found), strict=True)
    }
    for member in chain.from_iterable(batch):
        if isinstance(member.samples, Slot) and member.is_refit:
            member.samples.evidence.release()  # The evidence of hundreds of refits would not fit into memory.
    give_back()
    return results, trained


def _answers_file(key: str, setup: TrainingSetup) -> Path | None:
    return setup.store / f"{key}.safetensors" if setup.store else None


def weights_beside(answers: Path) -> Path:
    """File of the weights that belong to a file of answers."""
    return answers.with_suffix(_WEIGHTS)


def weights_file(member: Member, setup: TrainingSetup) -> Path | None:
    """File of the weights of a named member; None if they are not stored."""
    answers = _answers_file(member.key, setup)
    judge, from_file = member.judge, setup.materials.image_features  # Nobody has such vectors of other images.
    kept = setup.keeps_weights and judge.keeps_weights and not (judge.reads_vectors and from_file)
    return weights_beside(answers) if answers and kept and not member.is_refit else None


def are_stored(members: Sequence[Member], setup: TrainingSetup) -> bool:
    """Whether files of the answers and weights of members that are trained together are there, sound or not."""
    if setup.store is None:
        return False
    files = [*_files(members, setup), *(weights_file(member, setup) for member in members)]
    return all(path is None or path.exists() for path in files)


def load_answers(members: Sequence[Member], setup: TrainingSetup) -> list[Predictions | None]:
    """The answers of members that are trained together; None for a member whose answers or weights are not stored."""
    files = _files(members, setup)
    found = {path: read_sound(path, read_tensors) for path in dict.fromkeys(files) if path}
    answers: list[Predictions | None] = []
    for member, path in zip(members, files, strict=True):
        stored, weights = path and found[path], weights_file(member, setup)
        if not stored or member.key not in stored[0] or (weights and read_sound(weights, read_notes) is None):
            answers.append(None)
        else:
            answers.append(Predictions(stored[0][member.key], member.target, stored[1][member.key]))
    return answers


def store_answers(members: Sequence[Member], setup: TrainingSetup, found: Sequence[Predictions]) -> None:
    """Store the answers of members that were trained together, if the run stores any; NaN is refused."""
    tensors, notes = dict[Path, dict[str, Any]](), dict[Path, dict[str, Any]]()
    for member, path, answers in zip(members, _files(members, setup), found, strict=True):
        if not np.isfinite(answers.probabilities).all():
            what = f"judge '{member.judge.name}' predicts NaN"
            raise JudgeError(what, where=f"seed {member.seed}", mend=DIVERGED)
        if path and (setup.sharing_of(member.judge) == "members" or is_main_process()):
            tensors.setdefault(path, {})[member.key] = answers.probabilities
            identity = {"of": owner_of(member), "depends_on": dict(member.ingredients)}
            about = {} if member.is_refit else {"identity": identity}
            notes[path] = notes.get(path, {}) | {member.key: dict(answers.notes)} | about
    for path, by_key in tensors.items():
        write_tensors(path, by_key, notes[path])
        with suppress(OSError):
            path.with_suffix(_TRAINING).unlink()


def _files(members: Sequence[Member], setup: TrainingSetup) -> list[Path | None]:
    """The file of each member's answers; refits that are trained jointly share one, as many files would be slow."""
    keys = [member.key for member in members]
    if members[0].is_refit and members[0].judge.joint:
        keys = [digest_of(*keys)] * len(members)
    return [_answers_file(key, setup) for key in keys]


def fit_member(member: Member, setup: TrainingSetup) -> Predictions:
    """Train one judge, by itself or with all processes, and return its answers about the test samples."""
    with threads(1 if setup.sharing_of(member.judge) == "members" else None):
        judge = build_judge(member, setup)
        judge.fit(member.training(), seed=member.stream, validation=member.validation())
        found = judge.predict(member.test())
        if member.validates:
            found = _validated(member, found, judge.predict(member.validation()))
        _store_weights(judge, member, setup, found)
        return found


def fit_jointly(members: Sequence[Member], setup: TrainingSetup) -> list[Predictions]:
    """Train judges that are trained jointly, those of one captioner; returns the answers of each."""
    judges: dict[int, Judge] = {}
    keeps = any(weights_file(member, setup) for member in members)
    found = _split_answers(members, _train_jointly(members, setup, judges.__setitem__ if keeps else None))
    for place, judge in judges.items():
        _store_weights(judge, members[place], setup, found[place])
    return found


def keep_jointly(members: Sequence[Member], setup: TrainingSetup) -> list[Any]:
    """Train judges that are trained jointly again, and return them; their answers are those of the run."""
    judges: dict[int, Judge] = {}
    _train_jointly(members, setup, judges.__setitem__)
    return [judges[place] for place in range(len(members))]


def _train_jointly(members: Sequence[Member], setup: TrainingSetup, keep: Keep) -> list[Predictions]:
    judge = members[0].judge
    assert judge.joint is not None
    vectors = setup.precomputed.features.get(judge.name) if setup.precomputed else None
    with threads(1):
        return judge.joint(members[0].target, assign(members), keep, vectors)


def explain(members: Sequence[Member]) -> Explanation:
    """Train judges of one captioner, side and caption index again, and return the contribution of each term.

    With the ``settings`` that the run chose, predictions are equal to those of the run, to the last digit.
    """
    found = members[0].judge.explain
    assert found is not None
    with threads(1):
        explanation = found(members[0].target, assign(members))
    return replace(explanation, predictions=_split_answers(members, explanation.predictions))


def _split_answers(members: Sequence[Member], answers: Sequence[Predictions]) -> list[Predictions]:
    """Answers about the test samples, with the loss of those about the validation samples, which follow them."""
    found = []
    for member, predictions in zip(members, answers, strict=True):
        tests = len(member.places(member.split.test))
        rest = replace(predictions, probabilities=predictions.probabilities[tests:])
        test = replace(predictions, probabilities=predictions.probabilities[:tests])
        found.append(_validated(member, test, rest) if member.validates else test)
    return found


def _validated(member: Member, test: Predictions, validation: Predictions) -> Predictions:
    """Answers about the test samples, with the mean loss of those about the validation samples."""
    samples = member.validation()
    loss = np.average(Judged.of(samples, validation).loss, weights=[sample.weight for sample in samples])
    return replace(test, notes={**test.notes, VALIDATION_LOSS: float(loss)})


def _store_weights(judge: Judge, member: Member, setup: TrainingSetup, found: Predictions) -> None:
    """Write the file of a trained judge if it is to be stored; all processes that trained it call this."""
    path, sharing = weights_file(member, setup), setup.sharing_of(member.judge)
    if not path:
        return
    about = describe_member(member, setup.masking, sharing, found)
    if member.judge.network is None:
        trained: Any = judge
        features = trained.images.features if member.judge.reads_vectors else None
        about |= {"vocabulary": trained.vocabulary, "features": describe_features(features)}
        materials = setup.materials if features else NOTHING
        saved = Saved(path, member.judge.name, member.target, None, materials, **about)
        learnt = {f"{LEARNT}{name}": array for name, array in features.learnt.items()} if features else {}
        write_tensors(path, trained.tensors() | learnt, saved.notes())
    else:
        writes = sharing == "members" or is_main_process()
        save_network(cast("NetworkJudge", judge), path if writes else None, about)


def build_judge(member: Member, setup: TrainingSetup) -> Judge:
    """The untrained judge of a member; its training is resumed from the checkpoint beside its answers, if any."""
    blueprint, recipe = member.judge, setup.recipe_of(member.judge)
    if blueprint.judge is not None:
        return blueprint.judge(member.target)
    assert recipe is not None
    from judge.training.launch import make_accelerator
    from judge.training.loop import NetworkJudge, Trainer

    accelerator = make_accelerator(mixed_precision=setup.mixed_precision)
    answers, loaders = _answers_file(member.key, setup), setup.loaders
    features = setup.precomputed.features.get(blueprint.name) if setup.precomputed else None
    if sys.platform != "linux":
        loaders = 0  # They are forked, which is safe on Linux alone.
    elif loaders is None:
        # Some where images are read for a GPU. CPUs are busy; to fork takes longer than to copy stored features.
        slow = "image" in blueprint.modalities and not features and accelerator.device.type != "cpu"
        loaders = min(_MOST_LOADERS, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if slow else 0
    trainer = Trainer(
        accelerator,
        setup.sharing or recipe.sharing,
        answers and answers.with_suffix(_TRAINING),
        workers=loaders,
        on_epoch=partial(_log_epoch, member, setup),
        on_step=setup.count,
    )
    return NetworkJudge(blueprint, member.target, recipe, trainer, replace(setup.materials, features=features))


def _log_epoch(member: Member, setup: TrainingSetup, epoch: int, history: History) -> None:
    """Log an epoch, but none of a refit: there are hundreds. No training ends because it cannot be logged."""
    if setup.log is None or member.is_refit:
        return
    evidence = getattr(member.samples, "evidence", None)
    whose = {"captioner": evidence.captioner} if evidence else {}
    names = {"side": member.side, "index": member.index, "seed": member.seed, "fold": member.split.fold}
    losses = {"loss": history.training[-1], "validation": history.validation[-1] if history.validation else None}
    try:
        setup.log("epoch", judge=member.judge.name, **whose, **names, epoch=epoch, **losses)
    except FileNotFoundError:
        pass  # The main process has failed, said so, and removed the folder; this process is about to end.
    except OSError as error:
        _logger.warning("events of trainings cannot be logged (%s)", str(error).partition("\n")[0])
