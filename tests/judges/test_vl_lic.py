"""VL-LIC with BERT: a real one, tiny, with a tokenizer of its own, saved and loaded again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from helpers import GENDER, Glimpses, accuracy, make_glimpses, make_samples
from safetensors.torch import load_file
from tiny_bert import IDS, SIZES, make_tokenizer, save_bert

from judge.errors import JudgeError
from judge.judges import Materials, Recipe, find_judge
from judge.judges.bert import READER, BatchNorm, PretrainedClassifier, load_reader
from judge.training.processes import make_accelerator
from judge.training.trainer import Trainer
from judge.types import FloatArray, Sample
from judge.utils.hub import quiet

LINES = [("a", "<gender>", "rides", ",", "<unk>"), (), ("clue1", "noise7"), ("dog",) * 9, ("<", "gender", ">")]
SAMPLES = [Sample(str(n), "human", 0, words, (n % 2,), image=f"{n}.png") for n, words in enumerate(LINES)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("readers") / "bert")


def make(folder: Path | str | None, features: Glimpses) -> PretrainedClassifier:
    network = find_judge("vl-lic").network
    assert network
    torch.manual_seed(0)
    made = network(GENDER, [], Materials(reader=str(folder), features=features))
    assert isinstance(made, PretrainedClassifier)
    return made.eval()


def logits(network: PretrainedClassifier, samples: Sequence[Sample]) -> FloatArray:
    with torch.no_grad():
        return network(network.collate(samples)).double().numpy()


def test_what_it_reads_token_by_token(folder: Path) -> None:
    """Hidden words are BERT's [MASK], words that alignment took out its [UNK]; what people typed is text."""
    batch = make(folder, make_glimpses(SAMPLES)).collate(SAMPLES)
    spelled = [
        ["[CLS]", "a", "[MASK]", "rides", ",", "[UNK]", "[SEP]"],
        ["[CLS]", "[SEP]"],
        ["[CLS]", "clue1", "noise", "##7", "[SEP]"],
        ["[CLS]", *["dog"] * 9, "[SEP]"],
        ["[CLS]", "<", "g", "##e", "##n", "##d", "##e", "##r", ">", "[SEP]"],
    ]
    for ids, mask, expected in zip(batch["text"]["input_ids"], batch["text"]["attention_mask"], spelled, strict=True):
        assert ids[: len(expected)].tolist() == [IDS[piece] for piece in expected]
        assert mask.tolist() == [1] * len(expected) + [0] * (len(ids) - len(expected))


def test_logits_by_hand(folder: Path) -> None:
    """BERT itself, a caption at a time without padding; then the classifier of LIC's supplement in numpy."""
    features = make_glimpses(SAMPLES)
    network = make(folder, features)
    for module in network.modules():
        if isinstance(module, BatchNorm):
            torch.nn.init.normal_(module.running_mean)  # type: ignore[arg-type]
            torch.nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    with quiet():
        bert = tf.BertModel.from_pretrained(folder).eval()
    weights = {name: tensor.double().numpy() for name, tensor in network.output.state_dict().items()}

    def norm(layer: int, x: FloatArray) -> FloatArray:
        spread = np.sqrt(weights[f"{layer}.running_var"] + 1e-5)
        return (x - weights[f"{layer}.running_mean"]) / spread * weights[f"{layer}.weight"] + weights[f"{layer}.bias"]

    for sample, found in zip(SAMPLES, logits(network, SAMPLES), strict=True):
        length = int(network.collate([sample])["text"]["attention_mask"].sum())
        ids = network.collate([sample])["text"]["input_ids"][:, :length]
        with torch.no_grad():
            read = bert(ids).last_hidden_state[0, 0].double().numpy()
        x = np.concatenate([read, features.pictures[str(sample.image)].mean(axis=0)])
        x = norm(2, weights["1.weight"] @ norm(0, x) + weights["1.bias"])
        x = np.where(x > 0, x, 0.01 * x)
        assert found == pytest.approx(weights["4.weight"] @ x + weights["4.bias"], abs=1e-4)


def test_neither_padding_nor_company_nor_order_changes_an_answer(folder: Path) -> None:
    network = make(folder, make_glimpses(SAMPLES))
    together = logits(network, SAMPLES)
    assert np.concatenate([logits(network, [sample]) for sample in SAMPLES]) == pytest.approx(together, abs=1e-5)
    assert logits(network, SAMPLES[::-1])[::-1] == pytest.approx(together, abs=1e-5)


def test_blanked_caption_blanked_picture_and_a_caption_too_long(folder: Path) -> None:
    network = make(folder, make_glimpses(SAMPLES))
    sample = SAMPLES[0]
    found = logits(network, [sample, replace(sample, words=()), replace(sample, image=None)])
    assert np.isfinite(found).all()
    assert all(np.abs(found[0] - other).max() > 1e-4 for other in found[1:])
    long = [replace(sample, words=("dog",) * count) for count in (60, 61, 500)]
    assert network.collate(long)["text"]["input_ids"].shape == (3, 62)
    assert np.ptp(logits(network, long), axis=0) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("modality", ["caption", "image"])
def test_a_clue_of_either_modality_is_learnt_and_bert_with_it(folder: Path, modality: str) -> None:
    samples = make_samples(320, clue=float(modality == "caption"))
    network = make(folder, make_glimpses(samples, clue=float(modality == "image")))
    before = {name: weight.detach().clone() for name, weight in network.encoder.named_parameters()}
    recipe = Recipe(epochs=6, learning_rate=1e-3, batch_size=21, keep="best")  # 210 = 10 x 21: no batch of one.
    trainer = Trainer(make_accelerator())
    trainer.fit(network, samples[:210], target=GENDER, recipe=recipe, seed=0, validation=samples[210:250])
    found = trainer.predict(network, samples[250:], target=GENDER, recipe=recipe)
    assert accuracy(found, samples[250:]) > 0.9
    moved = {name for name, weight in network.encoder.named_parameters() if not torch.equal(weight, before[name])}
    assert {name for name in before if "pooler" not in name} <= moved


def test_a_batch_of_one_is_normed_by_what_was_seen_so_far() -> None:
    torch.manual_seed(0)
    norm, plain = BatchNorm(3), torch.nn.BatchNorm1d(3)
    for _ in range(5):
        x = torch.randn(8, 3) * 4 + 1
        assert torch.equal(norm(x), plain(x))
    one = torch.randn(1, 3)
    kept = norm.running_mean.clone()  # type: ignore[union-attr]
    assert torch.allclose(norm.train()(one), plain.eval()(one))
    assert torch.equal(norm.running_mean, kept)  # type: ignore[arg-type]


def test_another_reader_is_another_judge(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name; by folder; and by the folder's content, written anew. What lies about elsewhere is nobody's."""
    fingerprint = find_judge("vl-lic").fingerprint
    assert fingerprint
    copied = tmp_path / "here" / "bert"
    shutil.copytree(folder, copied)
    monkeypatch.chdir(copied.parent)
    usual, before = fingerprint(Materials()), fingerprint(Materials(reader=str(copied)))
    assert Materials(reader="a").settings != Materials(reader="b").settings != Materials().settings
    (copied.parent / "notes.txt").write_text("nobody's", "utf-8")
    assert (fingerprint(Materials()), fingerprint(Materials(reader="bert"))) == (usual, before)
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes())
    assert fingerprint(Materials(reader=str(copied))) != before
    # The usual one may lie in a folder of its name, and is read from there.
    copied.rename(copied.with_name(READER))
    assert fingerprint(Materials()) == fingerprint(Materials(reader=READER)) != usual
    assert load_reader(None).model.config.hidden_size == SIZES["hidden_size"]


# Encoders of other families, and what is none.


def test_an_encoder_without_a_mask_of_its_own_reads_a_plain_word(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    raw = make_tokenizer().backend_tokenizer
    with quiet():
        tf.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(other)
    ids = make(other, make_glimpses(SAMPLES)).collate(SAMPLES[:1])["text"]["input_ids"][0].tolist()
    pieces = ["a", "g", *(f"##{letter}" for letter in "ender"), "rides", ",", "[UNK]"]
    assert ids[1:11] == [IDS[piece] for piece in pieces]
    assert ids.count(IDS["[UNK]"]) == 1


def test_distilbert_reads_too(tmp_path: Path) -> None:
    config = tf.DistilBertConfig(
        vocab_size=len(IDS), dim=32, hidden_dim=64, n_layers=2, n_heads=2, max_position_embeddings=40
    )
    with quiet():
        tf.DistilBertModel(config).save_pretrained(tmp_path)
        make_tokenizer().save_pretrained(tmp_path)
    network = make(tmp_path, make_glimpses(SAMPLES))
    assert np.isfinite(logits(network, [*SAMPLES, replace(SAMPLES[0], words=("dog",) * 99)])).all()


@pytest.mark.parametrize("limit", [None, 20])
def test_an_encoder_without_positions_reads_what_its_tokenizer_lets_it(tmp_path: Path, limit: int | None) -> None:
    """Funnel's are relative: nothing in its configuration says how far it reads."""
    sizes = {"d_model": 32, "d_inner": 64, "n_head": 2, "d_head": 16, "block_sizes": [1, 1], "num_decoder_layers": 1}
    config = tf.FunnelConfig(vocab_size=len(IDS), **sizes)
    assert getattr(config, "max_position_embeddings", None) is None
    tokenizer = make_tokenizer()
    tokenizer.model_max_length = limit or tokenizer.model_max_length
    with quiet():
        tf.FunnelModel(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
    network = make(tmp_path, make_glimpses(SAMPLES))
    long = replace(SAMPLES[0], words=("dog",) * 700)
    read = network.collate([long])["text"]["input_ids"].shape[1]
    assert read <= limit if limit else read == 702
    assert np.isfinite(logits(network, [*SAMPLES, long])).all()


def refused(reference: Path | str | None) -> str:
    with pytest.raises(JudgeError) as caught:
        load_reader(None if reference is None else str(reference))
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_nothing_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Offline, as told; otherwise the hub's client tries five times.
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    line = refused("nobody/nothing-of-the-kind")
    assert line.startswith("--reader nobody/nothing-of-the-kind: cannot be had (")
    assert line.endswith("Name the folder of one with --reader, or use --judge vl-lic-lstm.")
    assert refused(tmp_path / "none") == f"--reader {tmp_path / 'none'}: no such folder. Check the path."
    assert "no checkpoint of transformers is there (config.json)" in refused(tmp_path)
    # Said before any picture is looked at.
    backbone = find_judge("vl-lic").backbone
    assert backbone
    with pytest.raises(JudgeError, match="--reader nobody/nothing: cannot be had"):
        backbone(Materials(reader="nobody/nothing", backbone="resnet18", backbone_weights="random"))


def test_what_is_no_encoder_of_text_is_refused(tmp_path: Path) -> None:
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    bart = tf.BartConfig(vocab_size=9, d_model=8, encoder_ffn_dim=8, decoder_ffn_dim=8, **layers)
    configs = {"vit": tf.ViTConfig(), "blip": tf.BlipConfig(), "gpt2": tf.GPT2Config(), "bart": bart}
    for kind, config in configs.items():
        config.save_pretrained(tmp_path / kind)
        assert f"'{kind}' is no encoder of text. Choose BERT" in refused(tmp_path / kind)


def test_weights_and_tokenizers_at_fault(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = broken / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "its weights or tokenizer cannot be had in safe form" in refused(broken)
    torch.save(load_file(folder / "model.safetensors"), broken / "pytorch_model.bin")
    weights.unlink()
    assert "its weights or tokenizer cannot be had in safe form" in refused(broken)
    weights.write_bytes(whole)
    settings = json.loads((broken / "config.json").read_text("utf-8"))
    wider = {**settings, "num_hidden_layers": SIZES["num_hidden_layers"] + 1}
    (broken / "config.json").write_text(json.dumps(wider), "utf-8")
    assert "weights are missing or of another shape (encoder.layer.2." in refused(broken)
    (broken / "config.json").write_text(json.dumps(settings), "utf-8")
    for path in broken.glob("tokenizer*"):
        path.unlink()
    assert "tokenizer" in refused(broken)


def test_code_of_its_own_never_runs(folder: Path, tmp_path: Path) -> None:
    known, trap = tmp_path / "known", tmp_path / "ran"
    shutil.copytree(folder, known)
    (known / "model.py").write_text(f"open({str(trap)!r}, 'w')", "utf-8")
    settings = json.loads((known / "config.json").read_text("utf-8"))
    own = {"auto_map": {"AutoConfig": "model.C", "AutoModel": "model.M"}}
    (known / "config.json").write_text(json.dumps({**settings, **own}), "utf-8")
    make(known, make_glimpses(SAMPLES))
    (known / "config.json").write_text(json.dumps({**own, "model_type": "mystery"}), "utf-8")
    assert "'mystery' is no encoder of text" in refused(known)
    assert not trap.exists()
