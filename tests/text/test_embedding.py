"""Static embeddings: against the tokenizer and table read by hand, model2vec's layout, files of word vectors."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from judge.commands.evaluate import RunConfig
from judge.config import make_config
from judge.errors import JudgeError
from judge.judges import Materials
from judge.judges.names import find_judge
from judge.text.coded import Coded
from judge.text.embedding import WORDLLAMA, Embedding, load_embedding

CAPTIONS = [("a", "person", "riding", "a", "skateboard"), ("person",), (), ("a", "man's", "hat", "zzqx")]


def test_wordllama_is_the_mean_of_the_tokens_of_the_whole_caption() -> None:
    """Of length 1; the caption is tokenised as one text here."""
    spec = find_spec(WORDLLAMA)
    assert spec is not None
    root = Path((spec.submodule_search_locations or [""])[0])
    table = load_file(next(root.glob("weights/*256.safetensors")))["embedding.weight"].astype(np.float64)
    tokenizer = Tokenizer.from_file(str(next(root.glob("tokenizers/l2*.json"))))
    tokenizer.no_padding()
    rows = load_embedding(WORDLLAMA).captions(CAPTIONS)
    for row, caption in zip(rows, CAPTIONS, strict=True):
        mean = table[tokenizer.encode(" ".join(caption), add_special_tokens=False).ids].mean(axis=0) if caption else 0.0
        assert row == pytest.approx(mean / (np.linalg.norm(mean) or 1.0), abs=1e-6)
    shares, vectors = load_embedding(WORDLLAMA).factors(Coded.of(CAPTIONS))
    assert np.asarray(shares @ vectors) == pytest.approx(rows, abs=1e-12)


def write_model2vec(folder: Path, table: np.ndarray) -> str:
    """A table of two words and an unknown one."""
    folder.mkdir(exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({"cat": 0, "dog": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": table}, folder / "model.safetensors")
    return str(folder)


def test_a_folder_and_a_file_worked_by_hand(tmp_path: Path) -> None:
    """(3, 0) + 2 (0, 2) = (3, 4), of length 5."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("cat 3.0 0.0\ndog 0.0 2.0\n")
    folder = write_model2vec(tmp_path / "table", np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]], dtype=np.float16))
    for reference in (folder, str(vectors)):
        captions = [("dog", "cat", "dog"), ("emu",)]
        assert Embedding(reference).captions(captions) == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))
        shares, factors = Embedding(reference).factors(Coded.of(captions))
        assert factors.tolist() == [[0, 2], [3, 0], [0, 0]]
        assert shares.toarray()[0] == pytest.approx([0.4, 0.2, 0.0])
    assert Embedding(folder).key != Embedding(str(vectors)).key
    assert Embedding(str(vectors)).captions([("emu",)]).shape == (1, 2)


def test_tables_that_are_none_are_refused_in_one_line(tmp_path: Path) -> None:
    for absent in (str(tmp_path / "absent"), "./absent/table", "absent", "nobody/vectors.txt"):
        with pytest.raises(JudgeError, match=rf"--embedding {absent}: no such file or folder"):
            Embedding(absent)
    folder = write_model2vec(tmp_path / "table", np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(JudgeError, match="holds no table with a finite vector for each token"):
        Embedding(folder)
    (tmp_path / "table" / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(JudgeError, match="cannot be read"):
        Embedding(folder)


@pytest.mark.parametrize(("judges", "embedding", "named"), [
    (None, None, ("words+embedding",)),
    (None, "none", ("linear",)),
    (None, "table", ("words+embedding:table",)),
    (["linear", "Embedding", "embedding:other"], "table", ("linear", "embedding:table", "embedding:other")),
])  # fmt: skip
def test_names_of_judges_hold_the_embedding_of_a_run(
    judges: list[str] | None, embedding: str | None, named: tuple[str, ...]
) -> None:
    given = {"judge": judges, "embedding": embedding}
    settings = {name: value for name, value in given.items() if value is not None}
    config = make_config({"human": "human.json", "captions": "mine.json", **settings}, RunConfig)
    assert config.judge == named
    again = make_config(config.model_dump(mode="json", exclude_none=True), RunConfig)
    assert again.judge == named


def test_a_judge_of_nothing_is_refused() -> None:
    with pytest.raises(JudgeError, match=r"judge 'embedding' needs an embedding\. Use --judge linear"):
        make_config({"human": "a.json", "captions": "b.json", "judge": "embedding", "embedding": "none"}, RunConfig)


def test_another_table_in_the_same_place_makes_another_judge(tmp_path: Path) -> None:
    """Answers in a store are found by what the table holds, not by its name."""
    found = []
    for scale in (1, 2):
        load_embedding.cache_clear()
        folder = write_model2vec(tmp_path / "table", scale * np.eye(3, dtype=np.float32))
        fingerprint = find_judge(f"embedding:{folder}").fingerprint
        assert fingerprint is not None
        found.append(fingerprint(Materials()))
    assert found[0] != found[1]
