"""``scripts/bench_judge.py``: it times what it says, and counts a training step's work rightly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from helpers import GENDER, make_glimpses, make_samples

from judge.judges import Answering
from judge.judges.sat import ShowAttendTell

ROOT = Path(__file__).parents[1]
SMALL = ["--scenes", "40", "--size", "64", "--epochs", "3", "--measured", "1", "--backbone", "resnet18"]


@pytest.fixture(scope="module")
def bench(one_thread: None) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield import_module("bench_judge")


def test_both_ways_train_one_judge_and_ratios_are_told(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main([*SMALL, "--parts", "cache,decoder"])
    out = capsys.readouterr().out
    assert "3 epochs" in out
    assert "(extrapolated from 1)" in out
    ratios = dict(re.findall(r"^ratio (.+): ([\d.]+)$", out, flags=re.MULTILINE))
    assert {name.split(",")[0] for name in ratios} == {"re-encoding / cache", "sat", "grit"}
    assert len(ratios) == 4
    assert all(float(value) > 0 for value in ratios.values())
    apart = [float(value) for value in re.findall(r"^largest difference .+: (\S+)$", out, flags=re.MULTILINE)]
    # Half precision rounds by a 2,048th at most; that the two are not equal shows that one did not ask the cache.
    assert len(apart) == 2
    assert all(0 < value < 2**-11 for value in apart)
    table = [line.split(" | ") for line in out.splitlines() if line.startswith(("| sat", "| grit"))]
    assert [cells[1] for cells in table] == ["1", "1"]
    for cells in table:
        samples, work, rate, peak = (float(cell) for cell in cells[2:6])
        assert samples * work / 1e3 == pytest.approx(rate, rel=2e-3)
        assert rate / peak == pytest.approx(float(cells[6].strip(" |")), abs=1e-3)


@pytest.mark.parametrize("answering", get_args(Answering))
def test_the_work_of_a_step_of_sat_is_what_torch_counts(bench: Any, answering: Answering) -> None:
    samples = make_samples(9)
    words = sorted({word for sample in samples for word in sample.words})
    vocabulary = {word: row for row, word in enumerate(["<pad>", "<unk>", *words])}
    widths = {"embedding": 6, "hidden": 8, "attention": 5}
    network = ShowAttendTell(vocabulary, (), 2, make_glimpses(samples), **widths, answering=answering)
    batch = network.collate(samples)
    lengths = batch["lengths"].tolist()
    assert len(set(lengths)) > 2
    assert bench.sat_flops(network, lengths) == bench.count_flops(network, batch, samples, GENDER)


def linear_work(network: Any, batch: object) -> int:
    """Of linear layers alone, told by themselves."""
    work: list[int] = []

    def tell(layer: torch.nn.Linear, _: object, output: torch.Tensor) -> None:
        work.append(3 * 2 * layer.weight.numel() * output.numel() // layer.out_features)

    for layer in network.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(tell)
    network(batch)
    return sum(work)


def test_a_captioner_is_trained_by_the_trainer_and_alone(bench: Any, tmp_path: Path) -> None:
    drawn = bench.draw(24, 64, tmp_path / "world")
    widths = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    blueprint = bench.save_blip(tmp_path / "blip", drawn, size=64, **widths)
    accelerator = bench.use(cpu=True, precision="bf16")
    judge, rate = bench.fine_tune(blueprint, drawn, accelerator, batch=8, epochs=3, steps=2)
    assert rate > 0
    losses = judge.history.training
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    before = judge.network.model.text_decoder.cls.predictions.bias.detach().clone()
    alone, work = bench.step_alone(judge, drawn, accelerator, batch=8, steps=2)
    assert alone > 0
    assert not torch.equal(before, judge.network.model.text_decoder.cls.predictions.bias)
    few = judge.network.collate(drawn.samples[: bench.COUNTED])
    linear = linear_work(judge.network, few) / bench.COUNTED
    # Attention's own products and the patches come on top; there are few here.
    assert linear < work < 1.1 * linear


def test_an_unknown_part_is_refused_and_a_gpu_that_is_missing_told(
    bench: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--parts", "cache,speed"])
    assert "--parts speed: there are cache, decoder, gpu" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    bench.main([*SMALL, "--parts", "gpu"])
    assert capsys.readouterr().out.splitlines()[-1] == "gpu: none here, skipped"
