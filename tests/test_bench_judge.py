"""``scripts/bench_judge.py``: it times what it says, and counts a training step's work rightly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
SMALL: dict[str, Any] = {"scenes": 40, "size": 64, "epochs": 3, "measured": 1, "backbone": "resnet18", "batch": 8}


@pytest.fixture(scope="module")
def bench(one_thread: None) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield import_module("bench_judge")


@pytest.mark.slow
def test_both_ways_train_one_judge(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main([bench.Part.CACHE, bench.Part.DECODER], **SMALL)
    out = capsys.readouterr().out
    assert "(extrapolated from 1)" in out
    ratios = re.findall(r"^ratio without / with the cache, .+: ([\d.]+)$", out, flags=re.MULTILINE)
    assert len(ratios) == 2
    assert all(float(value) > 0 for value in ratios)
    # Half precision rounds by a 2,048th at most; the two are not equal, so one does not read the cache.
    (apart,) = re.findall(r"^largest difference .+: (\S+)$", out, flags=re.MULTILINE)
    assert 0 < float(apart) < 2**-11
    table = [line.split(" | ") for line in out.splitlines() if line.startswith(("| sat", "| grit"))]
    assert [cells[1] for cells in table] == ["1", "1"]
    for cells in table:
        samples, work, rate, peak = (float(cell) for cell in cells[2:6])
        assert samples * work / 1e3 == pytest.approx(rate, rel=2e-3)
        assert rate / peak == pytest.approx(float(cells[6].strip(" |")), abs=1e-3)


def linear_work(network: Any, batch: object) -> int:
    """Work of linear layers, counted by themselves."""
    work: list[int] = []

    def count(layer: torch.nn.Linear, _: object, output: torch.Tensor) -> None:
        work.append(3 * 2 * layer.weight.numel() * output.numel() // layer.out_features)

    for layer in network.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(count)
    network(batch)
    return sum(work)


def test_a_captioner_is_trained_by_the_trainer_and_alone(bench: Any, tmp_path: Path) -> None:
    drawn = bench.draw(24, 64, tmp_path / "world")
    widths = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    blueprint = bench.save_blip(tmp_path / "blip", drawn, size=64, **widths)
    accelerator = bench.use(cpu=True, precision="bf16")
    judge, rate = bench.fine_tune(blueprint, drawn, accelerator, batch=8, epochs=3, steps=2)
    assert rate > 0
    losses = judge.history.training
    assert losses[-1] < losses[0]
    before = judge.network.model.text_decoder.cls.predictions.bias.detach().clone()
    alone, work = bench.step_alone(judge, drawn, accelerator, batch=8, steps=2)
    assert alone > 0
    assert not torch.equal(before, judge.network.model.text_decoder.cls.predictions.bias)
    few = judge.network.collate(drawn.samples[: bench.COUNTED])
    linear = linear_work(judge.network, few) / bench.COUNTED
    # Attention's own products and the patches are further work; there is little of it here.
    assert linear < work < 1.3 * linear
