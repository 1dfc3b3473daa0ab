"""``judge caption``, ``judge evaluate --model`` and ``--judge self``, with tiny captioners of every family."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
import yaml
from captioners import EOS, FAMILIES, IDS, PATCH, PICTURE, UNK, ByHand
from helpers import done_well, fault_of, few, inputs_of, judge, pictures_of, read_json, refusal
from PIL import Image

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import FAITHFUL
from judge.captioning import caption_images
from judge.captioning.checkpoints import CheckpointWriter, load_writer
from judge.captioning.writing import Dtype, Writing
from judge.corpus.captions import read_captions
from judge.judges.hf_models import Captioner, load_captioner
from judge.masking.images import encode
from judge.masking.masked_images import MaskedImages
from judge.text.cleaning import clean
from judge.utils.hub import quiet

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = 6


def picture(number: int) -> Image.Image:
    """Noise of two sizes, half of it one colour."""
    size = (40, 56, 3) if number % 3 else (56, 40, 3)
    pixels = np.random.default_rng(number).integers(0, 255, size, dtype=np.uint8)
    pixels[:, :28, number % 3] = 255
    return Image.fromarray(pixels)


def write(
    folder: Path, pictures: list[Image.Image], *, size: int = 8, captioner: Captioner | None = None, **how: Any
) -> list[str]:
    with quiet():
        writing = Writing(**{"max_tokens": WORDS, **how})
        writer = CheckpointWriter(captioner or load_captioner(str(folder)), writing)
        asked = [writer.prepare(one) for one in pictures]
        parts = (asked[start : start + size] for start in range(0, len(asked), size))
        return [text for part in parts for text, _ in writer.write(part)]


DESCRIBE = "Describe the image in one sentence."
USUAL = dict.fromkeys(("llava", "llava_without_chat", "mllama", "qwen2_vl", "qwen2_5_vl"), DESCRIBE) | {
    "paligemma": "caption en"
}


def greedy(hand: ByHand, prompt: str, seen: Image.Image) -> list[int]:
    """The likeliest token after the prompt, again and again; every step a forward pass of its own."""
    inputs = dict(hand.images(seen, return_tensors="pt"))
    ids = [IDS.get(word, UNK) for word in prompt.lower().replace(".", " .").split()]
    written: list[int] = []
    # A tiny network may write the token of an image, which a plain forward pass would look up.
    while len(written) < WORDS and not {EOS, PICTURE, PATCH} & set(written):
        with torch.no_grad(), quiet():
            logits = hand.model(**hand.inputs(ids, written, inputs)).logits[0, -1]
        written.append(int(logits.argmax()))
    return written


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_writes_the_likeliest_token_at_each_step(family: str, checkpoint: Callable[[str], Path]) -> None:
    folder = checkpoint(family)
    # Florence-2 gets its task beside the image, in words of its own.
    prompts = [None] if family == "florence2" else [None, "a dog is"]
    captioner, hand = load_captioner(str(folder)), ByHand(family, folder)
    for prompt in prompts:
        asked = USUAL.get(family, "") if prompt is None else prompt
        pictures = [picture(number) for number in (1, 3)]
        for seen, found in zip(pictures, write(folder, pictures, captioner=captioner, prompt=prompt), strict=True):
            by_hand = greedy(hand, asked, seen)
            if family == "florence2":  # Its first and its last token are given, and count.
                by_hand = by_hand[: WORDS - 2]
            expected = " ".join(captioner.tokenizer.decode(by_hand, skip_special_tokens=True).split())
            if PICTURE in by_hand or PATCH in by_hand:
                assert found.startswith(expected)
            else:
                assert found == expected


@pytest.mark.parametrize("family", ["git", "vit_gpt2"])
def test_beams_equal_generate_as_transformers_documents_it(family: str, checkpoint: Callable[[str], Path]) -> None:
    folder, seen = checkpoint(family), picture(4)
    with quiet():
        model = type(FAMILIES[family]()[0]).from_pretrained(folder).eval()
        tokenizer = tf.AutoTokenizer.from_pretrained(folder)
        inputs = tf.AutoImageProcessor.from_pretrained(folder)(seen, return_tensors="pt")
        found = model.generate(**inputs, do_sample=False, num_beams=3, max_new_tokens=WORDS)[0]
    expected = " ".join(tokenizer.decode(found, skip_special_tokens=True).split())
    assert write(folder, [seen], beams=3) == [expected]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_size_of_batches_changes_nothing(family: str, checkpoint: Callable[[str], Path]) -> None:
    """Images of two shapes, so that Qwen2-VL's rows differ in length; greedy and beams."""
    folder, pictures = checkpoint(family), [picture(number) for number in range(5)]
    captioner = load_captioner(str(folder))
    for beams in (1, 2):
        whole = write(folder, pictures, captioner=captioner, beams=beams)
        assert write(folder, pictures, captioner=captioner, size=2, beams=beams) == whole
    assert len(set(whole)) > 1 or family == "paligemma"


def test_images_are_batched_by_the_shape_of_their_tensors(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """Qwen2.5-VL: every batch has one shape, so that each is one ``generate``; captions are those of single images.

    Sides are multiples of 8 pixels, and pixels 1,024 at most. GIT resizes all images to one size.
    """
    sizes = [(24, 24), (40, 24), (24, 25), (32, 32), (41, 24), (24, 24), (24, 40)]
    names = {f"{number}": f"{number}.png" for number in range(len(sizes))}
    for number, (width, height) in enumerate(sizes):
        turned = Image.Exif()
        turned[0x0112] = 6 if number == 6 else 1  # Upright it is 40 pixels wide.
        noise = np.random.default_rng(number).integers(0, 255, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / names[str(number)], exif=turned)
    images, how = MaskedImages(tmp_path, names), Writing(max_tokens=WORDS, caption_batch=2)
    with quiet():
        writer = CheckpointWriter(load_captioner(str(checkpoint("qwen2_5_vl"))), how)
        assert writer.batches(images) == [["0", "2"], ["1", "4"], ["3"], ["5"], ["6"]]
        prepared = {image: writer.prepare(Image.fromarray(images.read(image))) for image in names}
        alone = {image: writer.write([one])[0].text for image, one in prepared.items()}
        one_size = CheckpointWriter(load_captioner(str(checkpoint("git"))), how)
        assert one_size.batches(images) == [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]
    assert [images.size(image) for image in names] == [size[::-1] for size in [*sizes[:-1], (40, 24)]]
    found = caption_images(str(checkpoint("qwen2_5_vl")), images, how)
    assert list(found.captions.items()) == list(alone.items())
    assert found.cut == sum(writer.write([one])[0].cut for one in prepared.values())


@pytest.mark.parametrize("thinks", ["", "{% if enable_thinking is not defined or enable_thinking %}"])
def test_a_thinking_template_is_told_not_to_think_or_refused(
    thinks: str, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint("llava"), tmp_path / "own"))
    template = folder / "chat_template.jinja"
    plain = template.read_text()
    template.write_text(f"{plain}{thinks}<think>\n{thinks and '{% endif %}'}")
    if thinks:
        assert write(folder, [picture(1)]) == write(checkpoint("llava"), [picture(1)])
    else:
        line = fault_of(write, folder, [picture(1)])
        assert "its chat template begins each answer with a thought" in line


def test_weights_are_loaded_in_the_requested_type(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """``auto`` is float32 on CPUs, whatever the checkpoint's own type."""
    with quiet():
        captioner = load_captioner(str(checkpoint("git")), dtype=torch.bfloat16)
        for part in (captioner.model, captioner.processor):
            part.save_pretrained(tmp_path / "halves")
        expected: dict[Dtype, torch.dtype] = {"auto": torch.float32, "float32": torch.float32, "bf16": torch.bfloat16}
        for dtype, stored in expected.items():
            writer = load_writer(str(tmp_path / "halves"), Writing(dtype=dtype), torch.device("cpu"))
            assert {weight.dtype for weight in writer.captioner.model.parameters()} == {stored}


def test_where_memory_is_short_fewer_are_captioned_at_a_time(checkpoint: Callable[[str], Path]) -> None:
    """The model asks for more than any machine has, above so many rows; the error is torch's own."""
    folder, pictures = checkpoint("git"), [picture(3 * number + 1) for number in range(7)]
    whole, tried = write(folder, pictures), []

    def ask_for_room(module: Any, given: Any, *, most: int) -> None:
        tried.append(rows := len(given[0]))
        torch.empty((rows > most) * 2**60, dtype=torch.uint8)

    with quiet():
        writer = CheckpointWriter(load_captioner(str(folder)), Writing(max_tokens=WORDS))
        asked = [writer.prepare(one) for one in pictures]
        seeing = writer.captioner.model.git.image_encoder
        hook = seeing.register_forward_pre_hook(partial(ask_for_room, most=2))
        assert [text for text, _ in writer.write(asked)] == whole
        assert tried == [7, 4, 2, 2, 2, 1]
        hook.remove()
        seeing.register_forward_pre_hook(partial(ask_for_room, most=0))
        line = fault_of(writer.write, asked)
        assert "memory does not hold a single sample a forward pass. Load it in bf16 (judge caption --dtype" in line


def test_a_prompt_and_a_caption_fit_into_the_captioners_positions(checkpoint: Callable[[str], Path]) -> None:
    """No more is written than the model has positions for: 64."""
    (found,) = write(checkpoint("git"), [picture(1)], max_tokens=500)
    assert len(found.split()) <= 64
    assert write(checkpoint("git"), [], prompt=" ".join(["dog"] * 62)) == []
    line = fault_of(write, checkpoint("git"), [], prompt=" ".join(["dog"] * 84))
    assert "--prompt: is 85 tokens long, and the captioner has" in line


def test_a_caption_is_cut_where_no_token_ends_it(checkpoint: Callable[[str], Path]) -> None:
    """At ``max_tokens``; not where the first token that the captioner writes ends captions."""
    with quiet():
        writer = CheckpointWriter(load_captioner(str(checkpoint("git"))), Writing(max_tokens=3))
        seen = writer.prepare(picture(1))
        assert writer.write([seen])[0].cut
        (first, *_) = writer.tokens([seen])[0].tolist()
        writer.captioner.model.generation_config.eos_token_id = first
        assert not writer.write([seen])[0].cut


def test_a_caption_that_others_in_its_batch_outlast_is_not_cut(checkpoint: Callable[[str], Path]) -> None:
    """The model pads it, by a token of the tokenizer's or of the checkpoint's own."""
    with quiet():
        writer = CheckpointWriter(load_captioner(str(checkpoint("git"))), Writing(max_tokens=4))
    both = [writer.prepare(picture(number)) for number in (1, 1)]
    tokenizer, settings = writer.captioner.tokenizer, writer.captioner.model.generation_config
    word = next(token for token in range(len(tokenizer)) if token not in tokenizer.all_special_ids)
    for pad in (tokenizer.pad_token_id, word + 1):
        settings.pad_token_id = pad
        written = torch.tensor([[word, tokenizer.sep_token_id, pad, pad], [word] * 4])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "tokens", lambda prepared, written=written: written)
            assert [cut for _, cut in writer.write(both)] == [False, True]


# The command.


class Folder:
    """images/000000000000.png ... 6.png, beside them instances.json: a person in each."""

    def __init__(self, root: Path, model: Path) -> None:
        self.root, self.images, self.out, self.model = root, root / "pictures", root / "out.json", model
        self.images.mkdir()
        self.names = [f"{number:012d}.png" for number in range(7)]
        for number, name in enumerate(self.names):
            (self.images / name).write_bytes(encode(np.asarray(picture(number))))
        person = {"category_id": 1, "iscrowd": 0, "segmentation": [[4, 4, 30, 4, 30, 36, 4, 36]]}
        people = [{"id": number, "image_id": 100 + number} | person for number in range(7)]
        images = [{"id": 100 + number, "file_name": name} for number, name in enumerate(self.names)]
        document = {"images": images, "annotations": people, "categories": [{"id": 1, "name": "person"}]}
        self.instances = root / "instances.json"
        self.instances.write_text(json.dumps(document))

    def given(self, *more: object) -> list[object]:
        given = ["caption", "--model", self.model, "--images", self.images, "--out", self.out]
        return [*given, "--max-tokens", WORDS, "--caption-batch", 2, *more]

    def captions(self, *more: object) -> dict[str, str]:
        """Image id -> caption."""
        done_well(*self.given(*more), "--overwrite")
        return {str(row["image_id"]): row["caption"] for row in read_json(self.out)}

    def left(self) -> list[str]:
        """What lies beside the inputs."""
        return sorted(path.name for path in self.root.iterdir() if path.name not in {"pictures", "instances.json"})


@pytest.mark.parametrize(("file", "settings", "message"), [
    ("config.json", {"model_type": {"a": 1}}, "no checkpoint of transformers is there (config.json)"),
    ("config.json", {"model_type": "gpt2"}, "'gpt2' does not caption images"),
    ("config.json", {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}, "needs code of its own, wh"),
    ("model.safetensors", {}, "the weights cannot be read"),
    ("config.json", {"num_hidden_layers": 2**63}, "has over 1,000 layers or images. Set the environment"),
    ("config.json", {"vision_config": {"max_position_embeddings": 2**31}}, "has over 16,777,216 positions. Set"),
    ("generation_config.json", {"eos_token_id": "x"}, "it cannot caption: one of its files is damaged, or"),
    ("processor_config.json", {"image_processor": 1}, "its tokenizer or image processor is missing or at fault ("),
])  # fmt: skip
def test_a_faulty_file_is_one_line(
    file: str, settings: dict[str, Any], message: str, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(checkpoint("git"), tmp_path / "own")
    if settings:
        (folder / file).write_text(json.dumps(read_json(folder / file) | settings))
    else:
        (folder / file).write_bytes((folder / file).read_bytes()[:-1000])
    assert f": {message}" in fault_of(write, folder, [])


@pytest.fixture
def folder(tmp_path: Path, checkpoint: Callable[[str], Path]) -> Folder:
    return Folder(tmp_path, checkpoint("vit_gpt2"))


def test_captions_are_coco_results(folder: Folder) -> None:
    done = done_well(*folder.given())
    assert done.stderr == ""
    cut = f"7 captions were cut off at {WORDS} tokens; raise --max-tokens, or ask for less in --prompt"
    assert done.stdout == f"7 images captioned; the captions are in {folder.out}\nNOTE: {cut}\n"
    assert folder.left() == ["out.caption.yaml", "out.json"]
    expected = write(folder.model, [picture(number) for number in range(7)])
    assert read_json(folder.out) == [{"image_id": number, "caption": text} for number, text in enumerate(expected)]
    found = read_captions(folder.out, side="generated")
    assert found.by_image == {str(number): (clean(text)[0],) for number, text in enumerate(expected)}
    assert found.name == "out"
    settings = yaml.safe_load((folder.root / "out.caption.yaml").read_text(encoding="utf-8"))
    assert (settings["model"], settings["beams"], settings["max_tokens"]) == (str(folder.model), 1, WORDS)


def test_ids_are_those_of_a_coco_file(folder: Folder) -> None:
    by_name = folder.captions()
    assert list(by_name) == [str(number) for number in range(7)]
    by_id = folder.captions("--instances", folder.instances)
    assert by_id == {str(100 + number): by_name[str(number)] for number in range(7)}
    # Any COCO file will do, and only what it lists is captioned.
    few = folder.root / "captions.json"
    few.write_text(json.dumps({"images": [{"id": 3000, "file_name": folder.names[3]}], "annotations": []}))
    assert folder.captions("--ids", few, "--instances", folder.instances) == {"3000": by_name["3"]}


def test_masked_images_are_captioned_as_judge_mask_writes_them(folder: Folder) -> None:
    plain, hidden = folder.captions(), folder.captions("--mask", "box", "--instances", folder.instances)
    masked = folder.root / "masked"
    pictures = ["--images", folder.images, "--instances", folder.instances]
    done_well("mask", *pictures, "--mode", "box", "--out", masked)
    folder.images = masked
    assert list(hidden.values()) == list(folder.captions().values())
    assert list(hidden.values()) != list(plain.values())


def test_settings_of_others_beside_the_captions_stay(folder: Folder) -> None:
    """Those of the same command, killed before it wrote its captions, are taken."""
    settings, by_others = folder.root / "out.caption.yaml", "model: another\n"
    done_well(*folder.given())
    folder.out.unlink()
    done_well(*folder.given())
    folder.out.unlink()
    settings.write_text(by_others)
    line = refusal(*folder.given())
    assert line.startswith(f"judge: {settings.name}, beside --out {folder.out}: is there already. ")
    assert (folder.left(), settings.read_text()) == ([settings.name], by_others)
    done_well(*folder.given("--overwrite"))


def test_faulty_images_are_listed_and_the_others_captioned(folder: Folder) -> None:
    good = folder.captions()
    for number, data in ((1, b""), (4, b"no image")):
        (folder.images / folder.names[number]).write_bytes(data)
    done = judge(*folder.given("--overwrite"))
    assert done.exit_code == 1
    first, second, last, *_ = done.stderr.splitlines()
    assert first.startswith(f"judge: {folder.names[1]}: ")
    assert second.startswith(f"judge: {folder.names[4]}: ")
    assert last == "judge: 2 of 7 images could not be captioned"
    assert read_json(folder.out) == [{"image_id": n, "caption": good[str(n)]} for n in (0, 2, 3, 5, 6)]


@pytest.mark.parametrize(("extra", "message"), [
    (["--device", "toaster"], "--device toaster: cannot be used here"),
    (["--out", "."], "--out .: is a folder"),
    (["--out", "INSTANCES", "--ids", "INSTANCES", "--overwrite"], "instances.json is read"),
])  # fmt: skip
def test_faults_are_one_line_and_leave_nothing(folder: Folder, extra: list[str], message: str) -> None:
    before = folder.instances.read_bytes()
    given = [folder.instances if word == "INSTANCES" else word for word in extra]
    assert message in refusal(*folder.given(*given))
    assert (folder.left(), folder.instances.read_bytes()) == ([], before)


def test_a_file_in_place_of_unfinished_captions_is_one_line(folder: Folder) -> None:
    other = folder.root / ".out.json.partial"
    other.write_text("of somebody else")
    assert f"{other}: is no folder of captions of an unfinished run" in refusal(*folder.given())
    assert other.read_text()


# In ``judge evaluate``.


@pytest.fixture(scope="module")
def world(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    folder = tmp_path_factory.mktemp("w") / "world"
    return few(write_world(make_world(40, seed=5), {"plain": FAITHFUL}, folder, pictures=64))


def common(world: WorldFiles, out: Path) -> list[object]:
    quick = ["--tuning", "zero-shot", "--folds", 2, "--refits", 0, "--chance", 0, "--resamples", 100, "--workers", 1]
    return ["evaluate", *inputs_of(world), *pictures_of(world), *quick, "--out", out]


@pytest.mark.slow
def test_one_command_captions_and_assesses_a_checkpoint(
    world: WorldFiles, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    model, out = checkpoint("git"), tmp_path / "out"
    metrics = ["--metrics", "imagecaptioner2,lic", "--judge", f"self,self-image-only,hf:{model},linear"]
    done = done_well(*common(world, out), *metrics, "--model", model)
    assert "ImageCaptioner2 (self)" in done.stdout
    assert sorted(path.name for path in (out / "captions").iterdir()) == ["git.caption.yaml", "git.json"]
    found = read_json(out / "metrics.json")
    rows = {(row["metric"], row["judge"]): row for row in found["results"] if row["captioner"] == "git"}
    seeing = {("imagecaptioner2", name) for name in ("self", "self-image-only", f"hf:{model}")}
    assert set(rows) == seeing | {("lic", "linear")}
    assert found["run"]["captioners"]["git"]["checkpoint"] == str(model)
    assert f'hf:{model} reads "[MASK]" for <gender>, "<unk>" for <unk>.' in found["notes"]["footnotes"]
    # "self" is the checkpoint by another name.
    own, named = rows["imagecaptioner2", "self"], rows["imagecaptioner2", f"hf:{model}"]
    assert all(own[number] == named[number] for number in ("human", "generated", "amplification"))
    assert rows["imagecaptioner2", "self-image-only"]["amplification"] == 0
    # The captions are those that ``judge caption`` writes.
    alone = tmp_path / "alone.json"
    done_well("caption", "--model", model, *pictures_of(world), "--out", alone)
    assert alone.read_bytes() == (out / "captions" / "git.json").read_bytes()
    # A judge that is asked as it is cannot be trained again: none is trained, and nothing is left.
    asked = ["--metrics", "imagecaptioner2", "--judge", f"hf:{model}", "--refits", 4, "--captions", alone]
    line = refusal(*common(world, tmp_path / "refused"), *asked)
    assert "is asked as it is: there is no training whose noise refits could tell" in line
    assert not (tmp_path / "refused").exists()
    # A file of captions knows the checkpoint that wrote it.
    settings = ["--metrics", "imagecaptioner2", "--judge", f"self,hf:{model}", "--overwrite"]
    done_well(*common(world, out), *settings, "--captions", f"git={alone}")
    row = next(row for row in read_json(out / "metrics.json")["results"] if row["judge"] == "self")
    assert row == own
    assert not (out / "captions").exists()


@pytest.mark.parametrize(("extra", "message"), [
    (["--model", "a/x", "--model", "b/x"], "two captioners are called 'x': write OTHER=b/x"),
    (["--model", "..=x"], "'..' cannot be a file's name"),
    # Before any image is captioned.
    (["--model", "GIT", "--folds", "90"], "90 folds, and only"),
])  # fmt: skip
def test_faults_of_models(
    world: WorldFiles, checkpoint: Callable[[str], Path], tmp_path: Path, extra: list[str], message: str
) -> None:
    arguments = [*common(world, tmp_path / "out"), "--metrics", "imagecaptioner2"]
    assert message in refusal(*arguments, *[checkpoint("git") if word == "GIT" else word for word in extra])
    missing = "no captions of 'git', and no images to caption. Give --images, or --captions git=FILE."
    assert missing in refusal("evaluate", "--human", world.human, "--model", checkpoint("git"))
    assert list(tmp_path.iterdir()) == []
