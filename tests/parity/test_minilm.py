"""A real checkpoint gives its published figure and the vectors of the library it was made with."""

from __future__ import annotations

import csv

import pytest
import torch

import glassformer

SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "A man is playing a large flute, and nobody in the room seems to mind it very much at all.",
    "naïve café — 東京 2024",
]


@pytest.fixture(scope="module")
def encode(minilm):
    tokenizer = glassformer.AutoTokenizer.from_pretrained(minilm)
    model = glassformer.AutoModel.from_pretrained(minilm)

    def encode(texts: list[str]) -> torch.Tensor:
        parts = []
        for start in range(0, len(texts), 64):
            batch = tokenizer(
                texts[start : start + 64], padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            with torch.no_grad():
                hidden = model(**batch).last_hidden_state  # padded positions are zero
            parts.append(hidden.sum(1) / batch["attention_mask"].sum(1, keepdim=True))
        return torch.nn.functional.normalize(torch.cat(parts), dim=1)

    return encode


def test_sts_benchmark(encode, shared):
    from scipy.stats import spearmanr

    with open(shared / "data/stsb/stsb-en-test.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1379
    first, second = encode([row[0] for row in rows]), encode([row[1] for row in rows])
    rho = spearmanr((first * second).sum(1).numpy(), [float(row[2]) for row in rows]).statistic
    assert round(float(rho), 4) == 0.8203


def test_vectors_equal_sentence_transformers(encode, minilm):
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(minilm), device="cpu").encode(SENTENCES, normalize_embeddings=True)
    torch.testing.assert_close(encode(SENTENCES), torch.tensor(theirs), rtol=0, atol=1e-5)
