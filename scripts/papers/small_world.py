"""The inputs of small runs: a drawn world of a few scenes, and a captioner that was never trained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import CAPTIONERS
from judge.text.lexicon import load_lexicon
from judge.utils.hub import quiet

SCENES, PIXELS = 28, 64
MODEL, FEW, EXPLAINED = "models/untrained", "instances_few.json", 8


def write_small(folder: Path) -> Path:
    """Write a drawn world as a folder of data, with one human caption a scene and an untrained captioner."""
    files = write_world(make_world(SCENES, seed=1), CAPTIONERS, folder, pictures=PIXELS)
    human = json.loads(files.human.read_text(encoding="utf-8"))
    first = {entry["image_id"]: entry for entry in reversed(human["annotations"])}
    files.human.write_text(json.dumps(human | {"annotations": list(first.values())}), encoding="utf-8")
    files.labels.rename(folder / "gender.csv")
    shown = json.loads((folder / "instances.json").read_text(encoding="utf-8"))
    shown["images"] = shown["images"][:EXPLAINED]
    ids = {image["id"] for image in shown["images"]}
    shown["annotations"] = [entry for entry in shown["annotations"] if entry["image_id"] in ids]
    (folder / FEW).write_text(json.dumps(shown), encoding="utf-8")
    texts = (entry["caption"] for entry in first.values())
    words = sorted({word for text in texts for word in re.findall("[a-z]+", text.lower())})
    gender, race = load_lexicon("gender"), load_lexicon("race-words")
    # Many words of gender and race, so that some captions hold one.
    naming = [word for word in words if gender.mentions([word])]
    others = words[:: max(1, len(words) // (2 * len(naming)))]
    _write_captioner(folder / MODEL, sorted({*naming, *others}.union(*race.classes.values())))
    return folder


def _write_captioner(folder: Path, words: list[str]) -> None:
    """A GIT of 32 columns with random weights: its captions mean nothing, but depend on the image."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tf: Any = transformers  # Its constructors have no types.

    marks = ["<pad>", "<s>", "</s>", "<unk>", "<gender>"]
    ids = {word: place for place, word in enumerate([*marks, *words])}
    unknown = {"unk_token": "<unk>"}
    raw = Tokenizer(models.WordLevel(ids, **unknown))
    raw.normalizer, raw.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    names: dict[str, Any] = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", **unknown}
    names |= {"cls_token": "<s>", "sep_token": "</s>"}
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, **names)
    size = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 2}
    marked = {"vocab_size": len(ids), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    seeing = {**size, "image_size": 32, "patch_size": 16}
    config = tf.GitConfig(vision_config=seeing, max_position_embeddings=64, **marked, **size)
    with quiet():
        torch.manual_seed(0)
        model = tf.GitForCausalLM(config)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter.data, std=0.2)
        model.save_pretrained(folder)
        side = {"height": 32, "width": 32}
        tf.GitProcessor(tf.CLIPImageProcessor(size=side, crop_size=side), tokenizer).save_pretrained(folder)
