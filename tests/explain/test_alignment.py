"""The attention of a translator: the weights, the pictures, the page."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib

import pytest
import torch

import glassformer
from glassformer import (
    BertTokenizer,
    RNNConfig,
    RNNForSeq2SeqLM,
    TransformerConfig,
    TransformerForSeq2SeqLM,
    Translation,
    align,
    draw_alignment,
    draw_heads,
    write_alignments,
)
from glassformer.explain.analysis.alignment import Alignment
from glassformer.explain.pages import image_files
from glassformer.explain.pages.alignment_page import alignment_page
from glassformer.explain.pages.png_image import grey_png

HOSTILE = "<script>alert(1)</script>"
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcde",
    "<",
    ">",
    "script",
    "&",
    '"',
    "$",
    "alert",
    "(",
    ")",
    "/",
]


@pytest.fixture
def task():
    torch.manual_seed(0)
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)})
    config = TransformerConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=2,
        num_decoder_layers=3,
        intermediate_size=24,
        max_position_embeddings=32,
        bos_token_id=2,
        eos_token_id=3,
    )
    model = TransformerForSeq2SeqLM(config).eval()
    model.fc_out.weight.data[0, 0] += 0.01  # a model with untouched initial weights does not answer
    return Translation(model, tokenizer, max_new_tokens=6, suppress_tokens=[0, 1, 2, 4])


def test_the_weights_are_those_of_the_generated_tokens(task):
    alignment = align(task, "a b c")
    assert alignment.source == ["[CLS]", "a", "b", "c", "[SEP]"]
    assert alignment.read_back[0] == "[CLS]"
    assert alignment.read_back[1:] == alignment.target[:-1]
    length = len(alignment.target)
    assert alignment.cross.shape == (3, 2, length, 5)
    assert alignment.encoder.shape == (2, 2, 5, 5)
    assert alignment.decoder.shape == (3, 2, length, length)
    assert alignment.mean.shape == (length, 5)
    for weights in (alignment.cross, alignment.encoder, alignment.decoder):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert not alignment.decoder.triu(1).any()
    (pipe,) = glassformer.pipeline("translation", model=task.model, tokenizer=task.tokenizer)(
        "a b c", max_new_tokens=6, suppress_tokens=[0, 1, 2, 4]
    )
    assert alignment.written == pipe["translation_text"]
    ids = torch.tensor([task.tokenizer.convert_tokens_to_ids(alignment.source)])
    read = torch.tensor([task.tokenizer.convert_tokens_to_ids(alignment.read_back)])
    again = task.model(ids, decoder_input_ids=read, output_attentions=True)
    torch.testing.assert_close(alignment.cross[1, 0], again.cross_attentions[1][0, 0].detach())


def test_the_page_is_one_file_without_scripts(task, tmp_path):
    page = alignment_page([align(task, HOSTILE), align(task, 'a & "b"')], title=HOSTILE, note=HOSTILE)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http://" not in page
    assert "https://" not in page
    assert " style=" not in page
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in page
    assert page.count("<figure>") == 2 * 2 * (3 + 2 + 3)
    assert page.count('<div class="layer">') == 2 * (3 + 2 + 3)
    assert page.count('<g id="words-') == page.count("<details>") == 2 * 3  # a kind's words are written once
    for name in re.findall(r'<use href="#([^"]+)"', page):
        assert page.count(f'<g id="{name}">') == 1
    assert page.count("<section>") == 2
    assert (
        write_alignments([align(task, "a")], tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype")
    )


def test_a_grey_picture_holds_the_weights():
    weights = torch.tensor([[0.0, 1.0, 0.5], [0.25, 0.75, 0.0]])
    data = grey_png(weights)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    assert size == (3, 2)
    start = data.index(b"IDAT") + 4
    assert zlib.decompress(data[start : data.index(b"IEND") - 8]) == bytes([0, 255, 0, 128, 0, 191, 64, 255])


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures(task, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    alignment = align(task, "a $ b")
    beginning = {".png": b"\x89PNG", ".svg": b"<?xml"}[suffix]
    assert draw_alignment(alignment, tmp_path / f"one{suffix}").read_bytes().startswith(beginning)
    assert draw_heads(alignment, "encoder", tmp_path / f"all{suffix}").read_bytes().startswith(beginning)


def test_a_picture_of_a_long_text_has_a_limited_size_and_its_title_verbatim(tmp_path, recwarn, monkeypatch):
    plots = pytest.importorskip("matplotlib.pyplot")
    image = pytest.importorskip("matplotlib.image")
    words, weights = ["w$_{"] * 150, torch.full((2, 9, 150, 150), 1 / 150)
    alignment = Alignment("t", "costs $5 or $x_{ \U000105c0\n", words, words, words, weights, weights, weights)
    draw_heads(alignment, "cross", tmp_path / "all.png")
    assert max(image.imread(tmp_path / "all.png").shape) <= 8000
    kept = []
    monkeypatch.setattr(plots, "close", kept.append)
    draw_alignment(alignment, tmp_path / "one.svg")
    monkeypatch.undo()
    (axes,) = kept[0].axes
    assert axes.get_title() == r"costs \$5 or \$x_{ \U000105c0\n"
    assert axes.images[0].get_clim() == (0, pytest.approx(1 / 150))  # small weights can be alignment
    assert len(axes.get_xticks()) == len(axes.get_yticks()) == 50
    plots.close(kept[0])
    assert not recwarn


def test_pictures_that_cannot_be_drawn_are_reported(task, tmp_path):
    pytest.importorskip("matplotlib")
    alignment = align(task, "a")
    with pytest.raises(glassformer.InputError, match=r"written as .png or .svg, got 'one.txt'"):
        draw_alignment(alignment, tmp_path / "one.txt")
    with pytest.raises(glassformer.InputError, match="did you mean 'encoder'"):
        draw_heads(alignment, "encodr", tmp_path / "one.png")
    with pytest.raises(glassformer.InputError, match=r"there is no folder '.*nowhere' to write one.png to"):
        draw_alignment(alignment, tmp_path / "nowhere" / "one.png")


def recurrent(task, **fields):
    config = RNNConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, bos_token_id=2, eos_token_id=3, **fields
    )
    return Translation(RNNForSeq2SeqLM(config).eval(), task.tokenizer, max_new_tokens=3)


@pytest.mark.parametrize("attention", ["bahdanau", "luong_general"])
def test_a_recurrent_translator_has_an_alignment_too(task, tmp_path, attention):
    pytest.importorskip("matplotlib")
    alignment = align(recurrent(task, attention=attention), "a b")
    assert alignment.mean.shape == (len(alignment.target), 4)
    torch.testing.assert_close(alignment.mean.sum(-1), torch.ones(len(alignment.target)))
    assert alignment_page([alignment]).count("<figure>") == 1
    assert draw_alignment(alignment, tmp_path / "one.svg").stat().st_size
    with pytest.raises(glassformer.InputError, match="the encoder of this model has no self-attention"):
        draw_heads(alignment, "encoder", tmp_path / "one.png")


def test_a_translator_without_attention_is_refused(task):
    with pytest.raises(glassformer.InputError, match="never looks at the source"):
        align(recurrent(task, attention="without"), "a")


def test_byte_level_tokens_are_shown_as_text():
    tokenizer = glassformer.train_tokenizer(iter(["汤姆 läuft\n"] * 3), "bpe", vocab_size=300)
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=1,
        bos_token_id=0,
        eos_token_id=0,
    )
    alignment = align(Translation(TransformerForSeq2SeqLM(config).eval(), tokenizer, max_new_tokens=2), "汤姆 läuft")
    assert "".join(alignment.source) == "汤姆 läuft"
    assert len(alignment.source) < len("汤姆 läuft".encode())


def test_single_characters_stand_upright_in_pictures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots()
    for words, rotation in ((["我", "们"], 0), (["we", "i"], 90)):
        image_files.draw_grid(axes, torch.eye(2), ["a", "b"], words, 1.0)
        assert [label.get_rotation() for label in axes.get_xticklabels()] == [rotation] * 2
    pyplot.close(figure)
