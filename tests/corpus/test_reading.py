"""Every format of captions, written and read back; sides, splits, columns and refusals; real files."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import Write, fault, fault_of, table_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.corpus.captions import ReadOptions, read_captions, refuses
from judge.corpus.labels import read_labels
from judge.text.cleaning import clean

Form = Callable[[dict[str, str]], bytes]


def as_json(shape: Callable[[dict[str, str]], object], **how: Any) -> Form:
    return lambda pairs: json.dumps(shape(pairs), **how).encode()


def as_lines(row: Callable[[str, str], object]) -> Form:
    return lambda pairs: "\n".join(json.dumps(row(*pair), ensure_ascii=False) for pair in pairs.items()).encode()


def lmms_eval(image: str, caption: str) -> object:
    number = int(image) - 1
    return {
        "doc_id": 5000 + number,
        "target": str([caption]),
        "filtered_resps": [caption],
        "doc_hash": "0",
        "coco_CIDEr": {"answer": [caption], "pred": caption, "image_id": int(image), "id": number},
        "input": "Provide a one-sentence caption for the provided image.",
    }


def results(pairs: dict[str, str], **more: object) -> list[dict[str, object]]:
    return [{**more, "image_id": int(image), "caption": caption} for image, caption in pairs.items()]


def karpathy(pairs: dict[str, str]) -> list[dict[str, object]]:
    more = {"imgid": 90, "filename": "x.jpg", "split": "val"}
    return [more | {"cocoid": int(image), "sentences": [{"raw": caption}]} for image, caption in pairs.items()]


def delimited(delimiter: str, encoding: str = "utf-8") -> Form:
    def write(pairs: dict[str, str]) -> bytes:
        buffer = io.StringIO(newline="")
        csv.writer(buffer, delimiter=delimiter).writerows([("image_id", "caption"), *pairs.items()])
        return buffer.getvalue().encode(encoding)

    return write


FORMATS: dict[str, Form] = {
    "coco results": as_json(results),
    "coco captions": as_json(lambda pairs: {"images": [], "annotations": results(pairs, id=7)}, ensure_ascii=False),
    "karpathy": as_json(lambda pairs: {"images": karpathy(pairs), "dataset": "coco"}),
    "image: caption": as_json(lambda pairs: {f"COCO_val2014_{int(image):012d}.jpg": pairs[image] for image in pairs}),
    "image: captions": as_json(lambda pairs: {image: [caption] for image, caption in pairs.items()}, indent=1),
    "json lines": as_lines(lambda image, caption: {"image": f"{image}.jpg", "text": caption}),
    "lmms-eval": lambda pairs: as_lines(lmms_eval)(pairs) + b"\n",
    "csv": delimited(","),
    "csv with a byte order mark": delimited(",", "utf-8-sig"),
    "tsv": delimited("\t"),
    "semicolons": delimited(";"),
    "parquet": lambda pairs: table_bytes(
        pd.DataFrame(results(pairs)).assign(picture=[{"bytes": b"\xff\xd8"}] * len(pairs)), "parquet"
    ),
}


# Anything that UTF-8 can write; a text file with a zero byte is taken for a damaged one.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_round_trip(write: Write, form: str, data: st.DataObject) -> None:
    captions = data.draw(st.lists(TEXTS, min_size=1, max_size=4))
    pairs = {str(number): caption for number, caption in enumerate(["anchor", *captions])}
    read = read_captions(write(FORMATS[form](pairs)), ReadOptions(refusals=()), side="generated")
    kept = {image: (caption,) for image, text in pairs.items() if (caption := clean(text)[0]).strip()}
    assert read.by_image == kept
    assert read.empty == len(pairs) - len(kept)


def test_duplicates(write: Write) -> None:
    for form in ("csv", "json lines", "coco results"):
        text = FORMATS[form]({"1": "a man", "2": "a dog"}).decode()
        path = write(text.replace("2,", "1,").replace("2.jpg", "1.jpg").replace(": 2", ": 1"))
        assert "record 2" in fault(path)
        assert "duplicate results for image '1' (record 1 has one)" in fault(path)
        several = read_captions(path, ReadOptions(several=True), side="generated")
        assert several.by_image == {"1": ("a man", "a dog")}
        assert read_captions(path, side="human").by_image == {"1": ("a man", "a dog")}
    message = fault(write({"1.jpg": "a man", "01.jpeg": "a dog"}))
    assert message.startswith("record 2 ('01.jpeg'), field 'key': duplicate results for image '1'")


def test_bombs(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge.utils.reading.memory_limit", lambda: 400)
    for content in (FORMATS["parquet"]({"1": "a man"}), b" " * 101, b"[" * 90, b"a\n" * 9):
        told = fault(write(content))
        assert "of memory when it is read. Keep only" in told
        assert told.endswith("or set the environment variable JUDGE_NO_LIMITS=1 if you trust the file.")


def both_sides(path: Path, image: str, generated: tuple[str, ...], human: tuple[str, ...]) -> None:
    assert read_captions(path, side="generated").by_image == {image: generated}
    assert read_captions(path, side="human").by_image == {image: human}


def test_karpathy_splits_and_file_names(write: Write) -> None:
    images = [
        {"filename": "10.jpg", "split": "test", "sentences": [{"raw": "a dog"}, {"raw": "a cat"}]},
        {"filename": "11.jpg", "split": "restval", "sentences": [{"raw": "a cow"}]},
    ]
    path = write({"images": images})
    assert read_captions(path, side="human").by_image == {"10": ("a dog", "a cat"), "11": ("a cow",)}
    assert read_captions(path, ReadOptions(split="test"), side="human").by_image == {"10": ("a dog", "a cat")}
    assert fault(path, split="val") == "no captions of split 'val'. Splits in the file: restval, test."
    assert fault(path, split="test,val") == "no captions of split 'val'. Splits in the file: restval, test."
    images.append({"filename": "12.jpg", "split": "train", "sentences": [{"raw": "a man"}]})
    path = write({"images": images})
    both = read_captions(path, ReadOptions(split="train,restval"), side="human")
    assert (both.by_image, both.notes) == ({"11": ("a cow",), "12": ("a man",)}, ())
    (hint,) = read_captions(path, ReadOptions(split="train"), side="human").notes
    told = "has 1 images of split restval, which belong to Karpathy's training set and are left out: give --split train"
    assert hint.endswith(f"{told},restval")


def test_wrapped_results_and_lists_of_records(write: Write) -> None:
    records = [{"image_id": 42, "caption": "a man"}, {"image_id": "43.jpg", "caption": "a dog"}]
    found = {"42": ("a man",), "43": ("a dog",)}
    for content in ({"model": "blip", "results": records}, {"info": {"beams": 3}, "annotation": records}):
        assert read_captions(write(content), side="generated").by_image == found
    cider = {"42": [{"caption": "a man"}], "000043": [{"image_id": 43, "id": 7, "caption": "a dog"}]}
    assert read_captions(write(cider), side="human").by_image == found
    assert read_captions(write({"42": cider["42"]}), side="generated").by_image == {"42": ("a man",)}


def test_flickr(write: Write) -> None:
    tokens = '10_a.jpg#0\tA man, "Bob" .\n10_a.jpg#1\tTwo\tdogs .\n11_b.jpg#0\tA cow .\n'
    found = read_captions(write(tokens), side="human").by_image
    assert found == {"10_a": ('A man, "Bob" .', "Two\tdogs ."), "11_b": ("A cow .",)}
    bars = write("image_name| comment_number| comment\n10.jpg| 0| A man, here .\n10.jpg| 1| Two dogs .\n")
    assert read_captions(bars, side="human").by_image == {"10": (" A man, here .", " Two dogs .")}
    # A line of Kaggle's file lacks a separator. Beside captions a comment is an annotator's.
    lacking = write("image_name| comment_number| comment\n10.jpg| 0| A man .\n10.jpg| 4   A dog .\n")
    assert fault(lacking, "human") == "record 2: row of 2 under a header of 3. Add the separator that it lacks."
    both = write("image,comment,caption\n1,blurred,a man\n")
    both_sides(both, "1", ("a man",), ("a man",))


FRAME = pd.DataFrame({"image_id": [42, 7], "caption": ["a man", "a dog"]}, index=[7, 3])


@pytest.mark.parametrize("orient", ["columns", "records", "split", "index", "table"])
@pytest.mark.parametrize("indexed", [False, True])
def test_json_of_pandas(write: Write, orient: Any, indexed: bool) -> None:
    """Every form that names columns; the index of a frame names images if no column does."""
    found = {"42": ("a man",), "7": ("a dog",)}
    if not indexed:
        for frame in (FRAME, FRAME.reset_index(drop=True)):
            assert read_captions(write(frame.to_json(orient=orient)), side="generated").by_image == found
        labels = FRAME.rename(columns={"caption": "gender"}).assign(gender=["male", "female"])
        assert read_labels(write(labels.to_json(orient=orient))).by_image == {"42": "male", "7": "female"}
    elif orient != "records":  # Which leaves the index out.
        frame = FRAME.set_index("image_id")
        assert read_captions(write(frame.to_json(orient=orient)), side="generated").by_image == found


def test_numbers_of_rows_name_no_image(write: Write) -> None:
    no_ids = FRAME.reset_index(drop=True)[["caption"]]
    assert fault(write(no_ids.to_json())).startswith("no column of image ids among 'caption'")
    assert fault(write({"columns": ["image_id", "image_id"], "data": [[1, 2]]})).startswith("column 'image_id' occurs")
    for odd in ({"index": 5}, {"index": [1]}, {"data": [3]}, {"data": [[1, 2, 3]]}):
        assert fault(write({"columns": ["image_id", "caption"], "index": [1, 2], "data": [[1], [2]]} | odd))
    # An object of an image each, of which "id" is the caption's, is no table.
    described = {"42": {"id": 7, "caption": "a man"}}
    assert read_captions(write(described), side="generated").by_image == {"42": ("a man",)}


def test_a_list_of_one_text_is_a_text(write: Write) -> None:
    records = [{"image_id": 42, "caption": ["a man"]}, {"image_id": 43, "caption": "a dog"}]
    assert read_captions(write(records), side="generated").by_image == {"42": ("a man",), "43": ("a dog",)}
    for listed in (["a man", "a dog"], [], [["a man"]]):
        assert "caption is a list" in fault(write([{"image_id": 42, "caption": listed}]))


@pytest.mark.parametrize(
    "above", ["sep=;\n", "sep=;\r\n", "# by a tool\n", "# by a tool\n#\n\n", "sep=;\n# a, b\n", "#", "# "]
)
def test_lines_above_the_header(write: Write, above: str) -> None:
    path = write(f"{above}image_id;caption\n42;a man, here, there\n")
    assert read_captions(path, side="generated").by_image == {"42": ("a man, here, there",)}
    quote = write(f'{above}image_id;caption\n42;"a man\n')
    assert f"line {above.count(chr(10)) + 2}: table cannot be read" in fault_of(read_captions, quote, side="generated")


def test_lines_above_the_header_take_no_time(write: Write) -> None:
    begun = time.process_time()
    for text in ("#" + " " * 50_000 + "x", "# \n" * 50_000, "#" * 50_000):
        assert fault(write(text))
    assert time.process_time() - begun < 3


@pytest.mark.parametrize("first", ["1180.jpg,a man", "a man,b/1180.png", "1180,a man", "7,a man on a horse"])
def test_a_table_without_header(write: Write, first: str) -> None:
    shown = ", ".join(f"'{name}'" for name in first.split(","))
    assert fault(write(f"{first}\n1181.jpg,a dog\n")) == (
        f"has no header: its first line is a record ({shown}). "
        "Write a first line that names the columns, such as image_id,caption."
    )


def test_a_table_with_other_names_has_a_header(write: Write) -> None:
    for header in ("0,1", "photo,Please describe the image in a sentence"):
        assert "no column of" in fault(write(f"{header}\n1181,a dog\n"))


def test_lmms_eval(write: Write) -> None:
    said = {"target": "['a man', \"a man's dog\"]", "filtered_resps": ["<think>hm</think> a guy"]}
    found = {"answer": ["a man", "a man's dog"], "pred": "a guy", "image_id": 42, "id": 0}
    both_sides(write([{"doc_id": 0, **said, "coco_Bleu_4": found}]), "42", ("a guy",), ("a man", "a man's dog"))
    passthrough = [{"doc_id": 3, "filtered_resps": ["a"], "coco_passthrough": {"pred": ["a guy"], "image_id": 42}}]
    assert read_captions(write(passthrough), side="generated").by_image == {"42": ("a guy",)}
    doc = {"question_id": "COCO_val2014_000000522418.jpg", "id": 3}
    path = write([{"doc_id": 3, "doc": doc, "target": "['x', 'y']", "resps": [["a guy"]]}])
    both_sides(path, "522418", ("a guy",), ("x", "y"))


def test_vlmevalkit(write: Write) -> None:
    answers = [["A man's hat.", 'He said "no".'], ["[sic] a dog", "two dogs"]]
    columns = {"question": "?", "answer": [str(answer) for answer in answers], "prediction": ["a man", None]}
    path = write(table_bytes(pd.DataFrame({"index": [0, 1], **columns}), "tsv"), "Qwen_COCO_VAL.tsv")
    human = read_captions(path, side="human")
    assert human.by_image == {"index:0": tuple(answers[0]), "index:1": tuple(answers[1])}
    generated = read_captions(path, side="generated")
    assert (generated.by_image, generated.empty) == ({"index:0": ("a man",)}, 1)


@pytest.mark.parametrize("text", ["[not a list", "['a', 3]", "[__import__('os').getcwd()]", "[" * 5000, "['a'"])
def test_lists_in_text_are_parsed_never_run(write: Write, text: str) -> None:
    path = write([{"image_id": 1, "answer": text}])
    expected = "record 1, field 'answer': looks like a list of captions but is none. Write it as a JSON list of texts."
    assert fault(path, "human") == expected


def test_people_may_give_lists_models_may_not(write: Write) -> None:
    path = write([{"image": "val2014/COCO_val2014_000000522418.jpg", "caption": ["a man", "a boy"]}])
    assert read_captions(path, side="human").by_image == {"522418": ("a man", "a boy")}
    mapping = write({"1": ["a man", "a boy"]})
    assert read_captions(mapping, side="generated").by_image == {"1": ("a man", "a boy")}


def test_columns(write: Write) -> None:
    path = write("photo,words,id\nx.jpg,a man,9\n")
    options = ReadOptions(columns={"image_id": "photo", "caption": "words"})
    assert read_captions(path, options, side="generated").by_image == {"x": ("a man",)}
    message = "no column of generated captions among 'photo', 'words', 'id'. Name it with --column caption=NAME."
    assert fault(path) == message
    assert fault(path, columns={"caption": "word"}).startswith("no column 'word'. Did you mean 'words'?")
    assert fault(path, columns={"picture": "photo"}).startswith("unknown column role 'picture'")
    assert fault(write("file_name,image,caption\na,b,c\n")) == (
        "columns 'file_name' and 'image' may both hold the image ids (columns: 'file_name', 'image', 'caption'). "
        "Choose one with --column image_id=NAME."
    )


def test_lines_of_json(write: Write) -> None:
    """One line is a record; a line separator inside of a caption ends none."""
    assert read_captions(write({"image_id": 1, "caption": "a man"}), side="generated").by_image == {"1": ("a man",)}
    text = json.dumps({"image_id": 1, "caption": "a\u2028b\x85c"}, ensure_ascii=False)
    path = write(f"{text}\n\n" + text.replace("1", "2", 1))
    assert read_captions(path, side="generated").by_image == {"1": ("a\u2028b\x85c",), "2": ("a\u2028b\x85c",)}


def test_empty_and_refused_are_counted(write: Write) -> None:
    captions = {"1": "", "2": " \n\u3000", "3": "I'm sorry, but I can't help with that.", "4": "a man"}
    read = read_captions(write(captions), side="generated")
    assert (read.by_image, read.empty, read.refused) == ({"4": ("a man",)}, 2, 1)
    everything = read_captions(write(captions), ReadOptions(refusals=()), side="generated")
    assert (len(everything.by_image), everything.refused) == (2, 0)
    mine = read_captions(write(captions), ReadOptions(refusals=("a m",)), side="generated")
    assert (set(mine.by_image), mine.refused) == ({"3"}, 1)
    assert fault(write({"1": "", "2": "As an AI, no."})) == (
        "no caption is left (1 empty, 1 refusals). Give captions that describe."
    )
    told = fault_of(read_captions, write(captions), ReadOptions(refusals=("(",)), side="generated")
    assert told.startswith("refusal pattern '(' is no regular expression")


REFUSALS = (
    "I'm sorry, but I can't assist with that request.",
    "I\u2019m sorry, I can\u2019t identify people in images.",
    '"I am sorry. The picture is not clear."',
    "I can't provide a description of this image.",
    "I'm unable to view images.",
    "As an AI language model, I do not see pictures.",
    "There is no image attached.",
    "Failed to obtain answer via API.",
    "抱歉，我无法描述这张图片。",
    # What follows describes the request, or why there is no description.
    "I'm sorry, but the image you've uploaded is too blurry to describe.",
    "I'm sorry, but the image contains explicit content.",
    "I'm sorry, but a clearer photo is needed.",
    "I'm sorry, but an error occurred. There is no image here.",
    "I'm unable to see images, but if you describe it I can help.",
    "I'm unable to describe the image, but I can help with other questions.",
    "I can't assist with that. I can provide a caption if you describe the image.",
    "I'm sorry, but it is not possible to tell.",
    "I can't identify who this is.",
    "The server refused to caption the image: content_filter",
)
# What is kept of them.
DESCRIBED = {
    "I'm unable to identify the person, but the image shows a woman eating pizza": "a woman eating pizza",
    "I'm sorry, but I can't identify people in images. However, I can tell you that the image shows a man.": "a man.",
    "I can't identify who this is, but I can describe the image: A woman by a car. She smiles.":
        "A woman by a car. She smiles.",
    "As an AI, I cannot identify individuals. The image depicts a man on a bench.": "a man on a bench.",
    "Sorry, I can't help with identifying people, but I can tell you it's a man riding a wave.": "a man riding a wave.",
    "I'm unable to identify the person. However, the person is riding a bike.": "the person is riding a bike.",
    "I'm not able to identify real people. In the image, a man is cooking.": "a man is cooking.",
    "I apologize, but I cannot identify anyone. What I can see is a woman.": "a woman.",
    "I'm unable to determine gender, but there are two people playing.": "there are two people playing.",
}  # fmt: skip
CAPTIONS = (
    "I can't believe how many birds are on this wire",
    "I'm sorry for the old man, he looks lonely",
    "As an airplane lands, people look up",
    "There is no image on the television screen",
    "Please do not feed the ducks, says a sign",
)


def test_refusals_and_captions_that_begin_like_them(write: Write) -> None:
    read = read_captions(write(dict(enumerate(REFUSALS + CAPTIONS))), side="generated")
    assert [text for (text,) in read.by_image.values()] == list(CAPTIONS)
    assert read.refused == len(REFUSALS)
    assert all(map(refuses, REFUSALS))
    read = read_captions(write(dict(enumerate(DESCRIBED))), side="generated")
    assert [text for (text,) in read.by_image.values()] == list(DESCRIBED.values())
    assert (read.refused, read.cleaned) == (0, {"disclaimers": len(DESCRIBED)})
    assert not any(map(refuses, (*DESCRIBED, *CAPTIONS)))


def test_shared_human_captions(shared: Path) -> None:
    path = shared / "coco-captions" / "captions_human.json"
    human = read_captions(path, side="human")
    # Workers of COCO wrote "I am unable to see an image above" where a picture did not load.
    assert (human.total, human.refused, human.empty) == (51_519 - 24, 24, 0)
    assert len(human.by_image) == 10_301
    assert set(map(len, human.by_image.values())) <= set(range(3, 8))
