"""A tuned captioner as an ordinary checkpoint of transformers, its LoRA adapters merged."""

from __future__ import annotations

from pathlib import Path

from judge.judges.huggingface import AnswerJudge
from judge.utils.hub import quiet


def save_merged(judge: AnswerJudge, folder: Path) -> None:
    """Weights, tokenizer and image processor into ``folder``; of LoRA the adapters are added to what they adapt."""
    captioner = judge.captioner
    with quiet():
        _merge_adapters(judge)
        captioner.model.save_pretrained(folder)
        apart = captioner.tokenizer, captioner.images
        for part in apart if captioner.processor is None else (captioner.processor,):
            part.save_pretrained(folder)


def _merge_adapters(judge: AnswerJudge) -> None:
    model = judge.captioner.model
    adapted = [(name, module) for name, module in model.named_modules() if hasattr(module, "lora_A")]
    for name, module in adapted:
        module.merge(safe_merge=True)
        path, _, last = name.rpartition(".")
        setattr(model.get_submodule(path), last, module.get_base_layer())
