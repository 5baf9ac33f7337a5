"""Tokenizers of models that share another model's algorithm, against transformers 4.30.2; and published folders."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import glassformer
from glassformer import AutoTokenizer
from glassformer.errors import TokenizerError
from glassformer.registry import TOKENIZERS
from glassformer.text.bpe.bpe import SYMBOLS
from glassformer.text.sentencepiece.model_file import CONTROL, Piece, write_model

from ..conftest import SHARED
from .conftest import SMALL, small_model
from .test_sentencepiece_tokenizers import answers_of

TEXTS = [
    "Hello low lower!",
    " two  spaces",
    "",
    "the quick brown fox, unaffable",
    "low[MASK] low<mask>er",
    "北京 café",
]
PAIRS = [("low", "lower low"), ("the fox", "!")]
MERGES = ["l o", "lo w", "e r", "Ġ low", "Ġ t", "h e", "Ġt he"]
BYTES = [*SYMBOLS, *(pair.replace(" ", "") for pair in MERGES)]
FUNNEL = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", *SMALL[5:], "<s>", "</s>"]
VOCABULARIES = {
    "bert": SMALL,
    "funnel": FUNNEL,
    "deberta": ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *BYTES, "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", *BYTES, "<mask>"],
}
KINDS = {
    "DebertaTokenizer": ("deberta", "deberta"),
    "FunnelTokenizer": ("funnel", "funnel"),
    "ElectraTokenizer": ("electra", "bert"),
    "RetriBertTokenizer": ("retribert", "bert"),
    "MobileBertTokenizer": ("mobilebert", "bert"),
    "LongformerTokenizer": ("longformer", "roberta"),
    "BartTokenizer": ("bart", "roberta"),
}


@pytest.fixture
def folders(tmp_path) -> dict[str, Path]:
    made = {}
    for kind, (model_type, vocabulary) in KINDS.items():
        folder = tmp_path / kind
        folder.mkdir()
        tokens = VOCABULARIES[vocabulary]
        if ("bert" in vocabulary and "Ġ" not in tokens) or vocabulary == "funnel":
            (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
        else:
            (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
            (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES]) + "\n", encoding="utf-8")
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        made[kind] = folder
    return made


def test_they_equal_the_original(folders, tmp_path):
    requests = [
        {"class": kind + suffix, "folder": str(folder), "init": {}, "texts": TEXTS, "pairs": PAIRS}
        for kind, folder in folders.items()
        for suffix in ("", "Fast")
    ]
    for request, answer in zip(requests, answers_of(requests, tmp_path, old=True), strict=True):
        kind = getattr(glassformer, request["class"])
        named = AutoTokenizer.from_pretrained(request["folder"])
        assert type(named) is kind
        kind.from_pretrained(request["folder"]).save_pretrained(tmp_path / "saved")
        (tmp_path / "saved" / "vocab.txt").unlink(missing_ok=True)
        (tmp_path / "saved" / "vocab.json").unlink(missing_ok=True)
        for tokenizer in (named, kind.from_pretrained(tmp_path / "saved")):  # and from its tokenizer.json alone
            encoded = [tokenizer(text, return_offsets_mapping=True) for text in TEXTS]
            assert [each["input_ids"] for each in encoded] == answer["ids"], request["class"]
            assert [each.get("token_type_ids") for each in encoded] == answer["types"], request["class"]
            assert [dict(tokenizer(*pair)) for pair in PAIRS] == answer["pairs"], request["class"]
            if answer["offsets"]:
                spans = [[list(span) for span in each["offset_mapping"]] for each in encoded]
                assert spans == answer["offsets"], request["class"]
        for path in (tmp_path / "saved").iterdir():
            path.unlink()


@pytest.mark.parametrize("suffix", ["", "Fast"])
def test_every_registered_name_is_read_from_files(folders, suffix):
    for name, path in TOKENIZERS.items():
        kind = getattr(glassformer, path.rpartition(".")[2])
        if kind.__name__ in folders:
            folder = folders[kind.__name__]
            (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name + suffix}))
            assert type(AutoTokenizer.from_pretrained(folder)) is kind


def test_a_model_file_that_nothing_names_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "spiece.model").write_bytes(write_model(small_model()))
    with pytest.raises(TokenizerError, match=r"nothing says which tokenizer reads it; name it as tokenizer_class in"):
        AutoTokenizer.from_pretrained(tmp_path)


CONFIGS = sorted((SHARED / "data" / "configs" / "tokenizer_config").glob("*.json"))


@pytest.mark.parametrize("path", CONFIGS or [None], ids=lambda path: path.stem if path else "none")
def test_published_settings_load_or_say_why_not(path, shared, folders, tmp_path):
    """Settings as people publish them, with a vocabulary that fits: they load, or the class is refused by its name."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    name = settings.get("tokenizer_class") or "BertTokenizer"
    if name.removesuffix("Fast") not in TOKENIZERS:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        with pytest.raises(TokenizerError, match=f"{name}.*not supported yet"):
            AutoTokenizer.from_pretrained(tmp_path)
        return
    # Only what a folder says about its vocabulary cannot be kept: these are other vocabularies.
    own = {key: value for key, value in settings.items() if not key.endswith(("_token", "_tokens", "_decoder"))}
    kind = getattr(glassformer, TOKENIZERS[name.removesuffix("Fast")].rpartition(".")[2])
    folder = tmp_path / "folder"
    folder.mkdir()
    if "vocab.txt" in kind.vocab_files_names.values():
        (folder / "vocab.txt").write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    elif "vocab.json" in kind.vocab_files_names.values():
        tokens = ["<|endoftext|>", *VOCABULARIES["roberta"]]
        (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
        (folder / "merges.txt").write_text("\n".join(MERGES) + "\n", encoding="utf-8")
    else:
        more = ("<pad>", "<cls>", "<sep>", "<mask>", "<eop>", "<eod>")
        model = small_model()
        model = dataclasses.replace(model, pieces=(*model.pieces, *(Piece(text, 0.0, CONTROL) for text in more)))
        (folder / kind.vocab_files_names["vocab_file"]).write_bytes(write_model(model))
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert type(tokenizer) is kind
    tokenizer.save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    renamed = {"max_len": "model_max_length"}
    assert not {renamed.get(key, key) for key in own if key not in ("tokenizer_class", "name_or_path")} - saved.keys()
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert again("the low hello")["input_ids"] == tokenizer("the low hello")["input_ids"]
