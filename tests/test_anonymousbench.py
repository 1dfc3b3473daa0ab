"""``scripts/papers/anonymousbench.py``: prompts, images by a real (tiny) diffusers pipeline, sheets, what is kept."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from judge.errors import JudgeError
from judge.masking.images import encode
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.utils.hub import quiet

# Words that describe people by gender, age or skin, besides those of the shipped lexicons.
TELLING = {
    "beard", "bearded", "bikini", "pregnant", "blond", "blonde", "african", "asian", "arab", "caucasian", "european",
    "indian", "latino", "skin", "skinned", "teenager", "granny", "nun", "monk", "priest", "maid", "butler", "mermaid",
    "santa", "ballerina", "cowboy", "housewife", "chairman", "lord", "king", "queen",
}  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> Any:
    return import_module("anonymousbench")


def make_pipeline() -> Any:
    """Stable Diffusion's own parts with random weights: 8 x 8 latents, images of 16 x 16."""
    import transformers as tf
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel

    torch.manual_seed(0)
    letters = "abcdefghijklmnopqrstuvwxyz,.-'"
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = tf.CLIPTokenizer(
        vocab={token: index for index, token in enumerate(vocabulary)}, merges=[], model_max_length=77
    )
    text = tf.CLIPTextConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        bos_token_id=len(vocabulary) - 2, eos_token_id=len(vocabulary) - 1, pad_token_id=len(vocabulary) - 1,
    )  # fmt: skip
    unet = UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, cross_attention_dim=16,
        attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    vae = AutoencoderKL(
        block_out_channels=(4, 8), norm_num_groups=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return StableDiffusionPipeline(
        vae=vae, text_encoder=tf.CLIPTextModel(text), tokenizer=tokenizer, unet=unet, scheduler=DDIMScheduler(),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip


def run(bench: Any, *arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(bench.app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output.strip()


def test_500_prompts_of_which_none_tells_an_attribute(bench: Any) -> None:
    prompts = bench.make_prompts()
    assert [prompt.number for prompt in prompts] == list(range(1, 501))
    assert len({prompt.text for prompt in prompts}) == 500
    for name in ("gender", "gender-wide", "age"):
        lexicon = load_lexicon(name)
        assert not [prompt.text for prompt in prompts if list(lexicon.find(tokenize(prompt.text)))]
    words = {word for prompt in prompts for word in tokenize(prompt.text)}
    assert not words & TELLING


SETTINGS = ("--steps", 2, "--size", 16, "--per-prompt", 2, "--first", 2)


@pytest.mark.usefixtures("one_thread")
def test_images_are_the_pipelines_own_in_any_batch(bench: Any, tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline"
    with quiet():
        make_pipeline().save_pretrained(pipeline)
    five = ("images", "--pipeline", pipeline, "--out", tmp_path / "five", *SETTINGS)
    assert run(bench, *five).startswith("4 images made; all 4 are in ")
    names = ["001000.png", "001001.png", "002000.png", "002001.png"]
    assert sorted(path.name for path in (tmp_path / "five" / "images").iterdir()) == names
    run(bench, "images", "--pipeline", pipeline, "--out", tmp_path / "one", *SETTINGS, "--batch", 1)
    made = {name: cv2.imread(str(tmp_path / "five" / "images" / name)) for name in names}
    assert len({of.tobytes() for of in made.values()}) == 4
    for name in names:
        alone = cv2.imread(str(tmp_path / "one" / "images" / name))
        np.testing.assert_allclose(alone.astype(int), made[name].astype(int), atol=1)
    # What diffusers makes of the prompt and the seed when it is asked directly.
    noise = torch.Generator("cpu").manual_seed(bench.seed_of(0, 2, 1))
    how = {"num_inference_steps": 2, "guidance_scale": 7.5, "height": 16, "width": 16}
    with quiet():
        asked = make_pipeline()
        asked.set_progress_bar_config(disable=True)
        found = asked(bench.make_prompts()[1].text, generator=noise, **how).images[0]
    np.testing.assert_allclose(np.asarray(found).astype(int)[..., ::-1], made["002001.png"].astype(int), atol=1)

    # Finished images stay; other settings are refused.
    (tmp_path / "five" / "images" / "002001.png").unlink()
    assert run(bench, *five).startswith("1 images made; all 4 are in ")
    line = run(bench, *five, "--steps", 3, code=2)
    assert "holds images made with another settings.yaml" in line


def test_weights_that_are_pickles_are_not_read(bench: Any, tmp_path: Path) -> None:
    with quiet():
        make_pipeline().save_pretrained(tmp_path, safe_serialization=False)
    assert list(tmp_path.rglob("*.bin"))
    with pytest.raises(JudgeError, match="cannot be loaded"):
        bench.load_pipeline(str(tmp_path), "cpu")


def test_what_most_raters_say_yes_to_twice_is_kept(bench: Any, tmp_path: Path) -> None:
    """Worked by hand: of images 0 to 5 the first has 3 of 3, then 2 of 3, 1 of 3, 1 of 2 (a tie), 0, not rated."""
    made = tmp_path / "made"
    (made / "images").mkdir(parents=True)
    for number in range(6):
        picture = np.full((16, 16, 3), 40 * number, dtype=np.uint8)
        (made / "images" / f"00100{number}.png").write_bytes(encode(picture))
    assert run(bench, "sheet", "--images", made).startswith("6 images are in")
    assert (made / "rating.csv").read_text().splitlines()[:2] == ["image,human,anonymous", "001000.png,,"]
    given = []
    for rater, answers in enumerate(("y y y y n -", "y y h h n -", "y h n - h -")):
        kinds = {"y": "yes,Yes", "h": "yes,no", "n": "no,", "-": "yes,"}
        lines = [f"00100{number}.png,{kinds[kind]}" for number, kind in enumerate(answers.split())]
        table = pd.DataFrame([line.split(",") for line in lines], columns=["image", "human", "anonymous"])
        path = tmp_path / f"{rater}.csv"
        table.to_csv(path, index=False, sep=",;\t"[rater])
        given += ["--answers", path]
    printed = run(bench, "keep", "--images", made, *given, "--out", tmp_path / "kept")
    assert printed.startswith("kept 2, left out 3, not rated 1; see ")
    kept = sorted((tmp_path / "kept" / "images").iterdir())
    assert [path.name for path in kept] == ["001000.png", "001001.png"]
    assert (tmp_path / "kept" / "kept.csv").read_text() == "image,yes,raters\n001000.png,3,3\n001001.png,2,3\n"
    asked = ("keep", "--images", made, "--answers", tmp_path / "sheet.csv", "--out", tmp_path / "other")
    for text, line in (
        ("image,human\n001000.png,yes\n", "no column 'anonymous'"),
        ("image,human,anonymous\n001000.png,maybe,\n", "answer yes or no"),
        ("image,human,anonymous\n001000.png,,\n", "no image is kept"),
    ):
        (tmp_path / "sheet.csv").write_text(text)
        assert line in run(bench, *asked, code=2).casefold()
