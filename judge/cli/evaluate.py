"""``judge evaluate`` and ``judge demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from judge.cli import options
from judge.cli.shared import also_takes, one_line_errors, resolve, say, show_progress


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    run_file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.yaml]", help="settings; options override them")
    ] = None,
    human: Annotated[Path | None, typer.Option(help="human captions, any of the formats in README")] = None,
    captions: Annotated[
        list[str] | None, typer.Option(help="a captioner's captions, or NAME=FILE; may be repeated")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="checkpoint that wrote a captioner's captions, or NAME=CHECKPOINT; without captions, it writes them "
            "of --images first; may be repeated"
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="attribute class of each image; default: derived from the human captions")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results [default: runs/evaluate]")] = None,
    overwrite: options.Overwrite = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="comma-separated: lic, leakage, sc; dbac, dpac (both directions; dbac-at or dbac-ta: one; "
            "dbac:accuracy: by another score, dbac:with-people: people are tasks too); counted, without a judge: ba, "
            "ba-objects, dba (dba-o and dba-g), multi, dpa, ratio, error (dba:princeton: as another code counts, "
            "dba-o:annotation: against what images show); with images imagecaptioner2, "
            "imagecaptioner2-ratio, vl-lic [default: lic,leakage]"
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="comma-separated: linear, lstm, lstm-bidirectional, rnn, rnn-bidirectional, transformer-1, "
            "transformer-5, bert-ft, bert-pre, sentence:NAME; of images: sat, grit, vl-lic, vl-lic-lstm, hf:NAME, self "
            "(the captioner's --model); -image-only or -caption-only after these blanks the other [default: linear; of "
            "images the metric's own]"
        ),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="crossfit or paper [default: crossfit]")] = None,
    seeds: Annotated[int | None, typer.Option(help="repetitions [default: 1 under crossfit, 10 under paper]")] = None,
    seed: Annotated[int | None, typer.Option(help="the first seed [default: 0]")] = None,
    folds: Annotated[int | None, typer.Option(help="folds of crossfit [default: 10]")] = None,
    attribute: options.Attribute = None,
    lexicon: options.Lexicon = None,
    objects: Annotated[
        Path | None,
        typer.Option(
            help="what else images show, for T->A of dbac and dpac, dba, multi, dpa [default: what human captions say]"
        ),
    ] = None,
    object_column: Annotated[str | None, typer.Option(help="of a table of objects: their names")] = None,
    object_id_column: Annotated[str | None, typer.Option(help="of a table of objects: the images")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="words of objects or other tasks: a shipped lexicon, or .yaml [default: coco-objects]"),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="frequency of a set of tasks: joint or product [default: joint]")
    ] = None,
    alignment: Annotated[
        str | None, typer.Option(help="none, constant or contextual [default: the metric's own]")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(help="of contextual alignment: corpus, a file, or hf:NAME [default: corpus]")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="of contextual alignment: cosine distance below which words are exchanged [default: by --vectors: "
            "0.65 for corpus, 0.7 for hf:, 0.4 for a file]"
        ),
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="of ba: content words looked at, the most frequent [default: 1000]")
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(help="of ba: captions that must hold a word with each class [default: one in 1,800]"),
    ] = None,
    human_scores: Annotated[
        Path | None,
        typer.Option(help="table of captioner, score: how biased people find each; metrics are compared with it"),
    ] = None,
    quality: Annotated[
        bool | None,
        typer.Option("--quality", help="score captions too, by class: BLEU, CIDEr, ROUGE-L, with Java METEOR"),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="folder of the images' pictures, for judges that see")] = None,
    instances: options.Instances = None,
    mask: Annotated[
        str | None, typer.Option(help="what is hidden of pictures: none, partial, segment or box [default: segment]")
    ] = None,
    detector: Annotated[str | None, typer.Option(help="gt, yolo or maskrcnn [default: gt]")] = None,
    hide: options.Hide = None,
    category: options.Category = None,
    fill: options.Fill = None,
    share: options.Share = None,
    dilation: options.Dilation = None,
    foreground: options.Foreground = None,
    threshold: options.Threshold = None,
    mask_threshold: options.MaskThreshold = None,
    weights: options.Weights = None,
    trust_weights: options.TrustWeights = None,
    cache: options.Cache = None,
    max_pixels: options.MaxPixels = None,
    template: Annotated[
        str | None, typer.Option(help='how captioners are asked [default: "Therefore, the gender is [Answer]"]')
    ] = None,
    answer: Annotated[
        list[str] | None, typer.Option(help="CLASS=WORD that answers, e.g. female=woman; repeatable")
    ] = None,
    answer_softmax: Annotated[
        str | None, typer.Option(help="among the answers alone (restricted) or all words (vocabulary)")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="timm's name of the network that sees [default: the judge's own]")
    ] = None,
    backbone_weights: Annotated[
        str | None, typer.Option(help="pretrained, random, or a .safetensors of timm's names [default: pretrained]")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="pixels along a side, for the backbone [default: its own]")
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="of vl-lic, bert-ft, bert-pre: transformers' name or folder of an encoder [default: bert-base-uncased]"
        ),
    ] = None,
    tuning: Annotated[
        str | None,
        typer.Option(help="of a Hugging Face captioner: full, frozen, lora or zero-shot [default: full]"),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="where what backbones see is kept [default: runs/features]")
    ] = None,
    text: Annotated[str | None, typer.Option(help="whole or first-sentence [default: whole]")] = None,
    contractions: Annotated[str | None, typer.Option(help="whole or split [default: whole]")] = None,
    refusal: Annotated[
        list[str] | None, typer.Option(help="regular expression that tells a refusal; replaces ours; repeatable")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="of caption tables: image_id=NAME or caption=NAME; repeatable")
    ] = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    label_value: options.LabelValue = None,
    split: Annotated[str | None, typer.Option(help="split of a Karpathy file, e.g. test")] = None,
    several: Annotated[
        bool | None, typer.Option("--several", help="a captioner may have several captions an image")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="overrides the judge's own")] = None,
    batch_size: Annotated[int | None, typer.Option(help="overrides the judge's own")] = None,
    micro_batch: Annotated[
        str | None,
        typer.Option(help="samples a forward pass; auto: as many as fit into memory [default: the judge's own]"),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="overrides the judge's own")] = None,
    precision: Annotated[str | None, typer.Option(help="no, bf16 or fp16 [default: Accelerate's setting]")] = None,
    sharing: Annotated[
        str | None, typer.Option(help="members or data: how several processes share judges [default: the judge's]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="judges trained at a time [default: one a core]")] = None,
    checkpoints: Annotated[
        Path | None, typer.Option(help="folder of trained judges: taken from there, and kept there [default: none]")
    ] = None,
    refits: Annotated[
        int | None,
        typer.Option(
            help="times that judges are trained again for the test, and on both halves of the images for the "
            "interval; 0: none [default: 20 for linear, 8 where it guesses tasks; 0 for judges that take long]"
        ),
    ] = None,
    chance: Annotated[
        int | None,
        typer.Option(
            help="times that judges are trained on shuffled labels, to see what chance is [default: 2 for linear, "
            "else 0]"
        ),
    ] = None,
    resamples: options.Resamples = None,
    level: options.Level = None,
) -> None:
    """Measure how much captioners amplify the bias of human captions.

    Prints a table and leaves run.yaml, metrics.json, log.jsonl, scores.parquet (what judges said), counts.parquet
    (what captions say) and replicates.parquet (values on parts of the data, for intervals and tests) in --out.
    """
    given = dict(locals())
    with one_line_errors():
        run_settings(given.pop("run_file"), given)


@also_takes(evaluate, without=("out", "overwrite", "resamples", "level"))
def train(**given: Any) -> None:
    """Train the judges of a run, on one or many processes; judge evaluate then scores them.

    Takes the file and the options of judge evaluate. Leaves each judge's answers and weights, and judges.json, in
    --checkpoints [default: checkpoints/judges]. What is there is taken over, what was killed goes on.
    """
    with one_line_errors():
        from judge.commands.train import train_judges
        from judge.config import TrainConfig
        from judge.utils.launch import is_main_process

        run_file = given.pop("run_file")
        config = resolve(run_file, given, TrainConfig, out="runs/evaluate")
        with show_progress() as progress:
            found = train_judges(config, progress=progress)
        if is_main_process():
            before = f" ({found.taken_over} were there)" if found.taken_over else ""
            say(f"{found.files} judges{before}, {found.seconds:.0f} s; they are in {config.checkpoints}")
            say(f"Score them with judge evaluate, the same file and options, and --checkpoints {config.checkpoints}")


def demo(
    out: Annotated[Path, typer.Option(help="folder for the world and the results")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="of the world")] = 0,
    images: Annotated[int, typer.Option(min=200, help="scenes in the world")] = 1200,
) -> None:
    """The whole story on a small world whose true amplification is known. Needs no download."""
    with one_line_errors():
        from judge.commands.demo import EXPECTED, run_demo
        from judge.report.result import print_result

        with show_progress() as progress:
            found = run_demo(out, seed=seed, images=images, progress=progress)
        print_result(found.result, extra=found.known)
        say(
            "\noptimal: scores of both sides, and their difference, for an optimal judge with unlimited data that\n"
            "reads the caption alone, or sees the picture too."
        )
        if EXPECTED in found.known:
            say(
                f"{EXPECTED}: amplification that this judge finds in worlds of this size, a mean over several; the\n"
                "interval is to be held against that."
            )
        say(f"\nThe world is in {found.world}, the results are in {found.results}")


def run_settings(run_file: Path | None, given: dict[str, Any]) -> None:
    """What ``judge evaluate`` and ``scripts/evaluate.py`` do with a file and options."""
    from judge.commands.evaluate import run
    from judge.config import RunConfig
    from judge.report.result import print_result
    from judge.utils.launch import is_main_process

    config = resolve(run_file, given, RunConfig, out="runs/evaluate")
    with show_progress() as progress:
        result = run(config, progress=progress)
    if is_main_process():
        print_result(result)
        say(f"\nThe results are in {config.out}")
