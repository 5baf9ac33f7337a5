"""The standalone pages in a real browser, and the functions that make them, with the arguments of bertviz."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
import sys
import types

import numpy as np
import pytest
import torch

import glassformer
from glassformer import BertModel, head_view, model_view, neuron_view
from glassformer.cli.main import main
from glassformer.explain.analysis.attribution import METHODS
from glassformer.explain.analysis.head_measures import MEASURES
from glassformer.explain.pages import attention_page as pages
from glassformer.explain.pages.bertviz_views import score_bias_of
from glassformer.nn.attention import AttentionInputs
from glassformer.nn.layout import Layout
from glassformer.transformers_neuron_view import BertModel as NeuronBert
from glassformer.transformers_neuron_view import GPT2Model as NeuronGPT2

from ..models.architectures import tiny_bert, tiny_gpt2, tokens
from ..models.encoder_decoders import tiny_transformer
from ..serve.browser import PageMonitor
from ..serve.conftest import HOSTILE, bert_folder, gpt_folder, hostile_subject, recurrent_folder  # noqa: F401
from ..tasks.tiny import VOCAB

TOKENS = ["[CLS]", *HOSTILE, "[SEP]"]


def attention(layers: int = 2, heads: int = 3, rows: int = len(TOKENS), columns: int = len(TOKENS)):
    torch.manual_seed(0)
    return [torch.randn(1, heads, rows, columns).softmax(-1) for _ in range(layers)]


def opened(browser, html: str, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.set_default_timeout(60_000)
    monitor = PageMonitor(page, path.as_uri())
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    return page, monitor


# --- the page itself --------------------------------------------------------------------------------------------------


def test_modules_do_not_share_names():
    """They share one scope in a standalone page."""
    names: list[str] = []
    for name in pages.MODULES:
        code = (pages.ASSETS / f"{name}.js").read_text(encoding="utf-8")
        names += re.findall(r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)", code, re.MULTILINE)
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    script = pages.bundled_script()
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert "innerHTML" not in script
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")


def test_every_text_is_translated_and_used():
    """Every translation is used, and every one that is used exists."""
    folders = [pages.ASSETS, pages.ASSETS.parents[2] / "serve/page"]
    code = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.js")))
    entry = r'"?([\w-]+)"?: \[\s*"[^"]*",\s*"[^"]*"\s*\]'
    known, rest = set(re.findall(entry, code)), re.sub(entry, "", code)
    used = set(re.findall(r'"([\w-]+)"', rest)) | {"all", "encoder", "decoder", "cross"} | set(MEASURES) | set(METHODS)
    used |= {f"{method}-is" for method in METHODS}
    used |= {f"about-{kind}" for kind in ("none", "label", "tag", "mask", "next")}
    used |= {f"predicted-{kind}" for kind in ("tag", "mask", "next")}
    used |= {f"relation-{relation}" for relation in ("pronoun", "subject", "object", "modifier", "auxiliary")}
    assert {"heatMap", "occlusion", "rolloutParts"} <= known
    assert not known - used
    assert not set(re.findall(r'translate\("([\w-]+)"', code)) - known


def test_the_content_policy_allows_only_the_pages_own_code():
    html = head_view(attention(), TOKENS).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        code = re.search(rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", html, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert html.count("</script>") == 3  # no token closed one


def test_a_notebook_gets_a_sandboxed_frame():
    shown = head_view(attention(), TOKENS)._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts allow-downloads"' in shown
    assert "<script" not in shown


def test_numbers_are_packed_exactly_or_quantised():
    small = pages.make_page("head", {"all": pages.Attention(TOKENS, TOKENS, {(0, 0): attention()[0][0, 0]})})
    packed = re.search(r'id="numbers">([^<]*)<', small.html)[1]
    import zlib

    numbers = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<f4")
    np.testing.assert_array_equal(numbers, attention()[0][0, 0].numpy().reshape(-1))
    many = torch.full((300, 300), 1 / 300)
    large = pages.make_page(
        "head", {"all": pages.Attention(["a"] * 300, ["a"] * 300, {(0, i): many for i in range(20)})}
    )
    assert '"precision": "uint16"' in large.html


# --- in a browser -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_page_of_glass_see(chromium, bert_folder, tmp_path, capsys):  # noqa: F811
    path, text = tmp_path / "see.html", "the cat sat on the mat"
    assert main(["see", str(bert_folder), text, "--pair", "so good", "-o", str(path), "--layer", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bytes"] == path.stat().st_size
    page, monitor = opened(chromium, path.read_text(encoding="utf-8"), tmp_path)
    reading = glassformer.Subject.load(bert_folder).read(text, "so good")
    assert report["tokens"] == reading.tokens
    assert page.locator(".cell").count() == 12
    heat = page.locator("section").nth(2).locator("canvas[role=application]")
    heat.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    message = page.locator("section").nth(2).locator(".status").inner_text()
    value = float(re.search(r": ([\d.e-]+) \(row sum ([\d.]+)\)", message)[1])
    assert value == pytest.approx(reading.weights(1, [0])[0, 1, 1].item(), rel=2e-5)
    assert "row sum 1.0000" in message
    assert "The weights add up to 1.000000" in page.inner_text("#page")
    page.get_by_label("Show").select_option("ab")
    page.locator(".cell").nth(7).click()
    assert page.locator(".cell[aria-pressed=true]").get_attribute("aria-label").startswith("Layer 1 Head 3")
    for name in ("PNG", "SVG", "JSON"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name).click()
        assert waiting.value.path().stat().st_size > 100
    page.close()
    assert not monitor.faults


def test_hostile_tokens_stay_text(chromium, tmp_path):
    for page_of in (
        head_view(attention(), TOKENS, sentence_b_start=3),
        model_view(attention(), TOKENS),
        head_view(
            encoder_attention=attention(),
            decoder_attention=attention(rows=3, columns=3),
            cross_attention=attention(rows=3),
            encoder_tokens=TOKENS,
            decoder_tokens=TOKENS[:3],
        ),
    ):
        page, monitor = opened(chromium, page_of.html, tmp_path)
        page.locator("canvas[role=application]").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert HOSTILE[0] in page.locator(".status").first.inner_text()
        assert page.evaluate("document.images.length") == 0
        if page.get_by_label("Attention", exact=True).count():
            page.get_by_label("Attention", exact=True).select_option("cross")
            assert page.locator("canvas[role=application]").count() == 1
        page.close()
        assert not monitor.faults


@pytest.mark.parametrize("kind", ["absolute", "relative_key"])
def test_the_neuron_view(chromium, hostile_subject, tmp_path, kind):  # noqa: F811
    torch.manual_seed(0)
    size = len(VOCAB) + len(HOSTILE)
    model = BertModel(tiny_bert(vocab_size=size, position_embedding_type=kind)).eval()
    view = neuron_view(model, "bert", hostile_subject.tokenizer, "the cat", HOSTILE[1], layer=1, head=2)
    with pytest.raises(glassformer.InputError, match="layer 1 has the heads"):
        neuron_view(model, "bert", hostile_subject.tokenizer, "the cat", layer=1, head=9)
    page, monitor = opened(chromium, view.html, tmp_path)
    message = page.inner_text("#page")
    assert "The weights add up to 1.000000" in message
    assert float(re.search(r"model's own is ([\d.e+-]+)\.", message)[1]) < 1e-5
    page.get_by_label("Query token").select_option("2")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    assert "cat → [CLS]: (q·k" in page.inner_text(".status")
    page.close()
    assert not monitor.faults


def test_the_neuron_view_of_a_decoder(chromium, gpt_folder, tmp_path):  # noqa: F811
    subject = glassformer.Subject.load(gpt_folder)
    page, monitor = opened(
        chromium, neuron_view(subject.model, None, subject.tokenizer, "Once upon a time").html, tmp_path
    )
    assert float(re.search(r"model's own is ([\d.e+-]+)\.", page.inner_text("#page"))[1]) < 1e-5
    page.close()
    assert not monitor.faults


# --- the functions of bertviz -----------------------------------------------------------------------------------------


def test_the_arguments_are_those_of_bertviz():
    assert (
        list(inspect.signature(head_view).parameters)
        == (
            "attention tokens sentence_b_start prettify_tokens layer heads encoder_attention decoder_attention "
            "cross_attention encoder_tokens decoder_tokens include_layers html_action"
        ).split()
    )
    assert (
        list(inspect.signature(model_view).parameters)
        == (
            "attention tokens sentence_b_start prettify_tokens display_mode encoder_attention decoder_attention "
            "cross_attention encoder_tokens decoder_tokens include_layers include_heads html_action"
        ).split()
    )
    assert (
        list(inspect.signature(neuron_view).parameters)
        == ("model model_type tokenizer sentence_a sentence_b display_mode layer head html_action").split()
    )


def test_layers_and_heads_can_be_left_out():
    html = model_view(attention(), TOKENS, include_layers=[1], include_heads=[0, 2], html_action="return").data
    about = json.loads(re.search(r'id="about">(.*?)</script>', html, re.DOTALL)[1])
    assert list(about["attention"]["all"]["places"]) == ["1.0", "1.2"]
    assert about["theme"] == "dark"
    pretty = head_view(attention(rows=2, columns=2), ["Ġa", "▁b"]).html
    assert '"left": [" a", " b"]' in pretty


def test_a_notebook_shows_the_view_once(monkeypatch):
    shown = []
    notebook = types.SimpleNamespace(get_ipython=lambda: object(), display=types.SimpleNamespace(display=shown.append))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert head_view(attention(), TOKENS) is None
    assert len(shown) == 1
    assert head_view(attention(), TOKENS, html_action="return") is not None
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention": attention()}, "all attention needs tokens"),
        ({"tokens": TOKENS}, "give attention with tokens"),
        ({"attention": attention(), "tokens": TOKENS[:2]}, "there are 2 and 2 tokens"),
        ({"attention": [torch.zeros(2, 3, 4, 4)], "tokens": TOKENS}, "one text at a time"),
        ({"attention": attention(), "tokens": TOKENS, "include_layers": [5]}, "layers 0 to 1, got 5"),
        ({"attention": attention(), "tokens": TOKENS, "html_action": "show"}, "'view' or 'return'"),
        ({"attention": attention(), "encoder_attention": attention(), "tokens": TOKENS}, "give either"),
        ({"attention": attention(), "tokens": TOKENS, "layer": 5}, r"the layers \[0, 1\], got 5"),
        ({"attention": attention(), "tokens": TOKENS, "layer": 1, "include_layers": [0]}, r"the layers \[0\], got 1"),
        ({"attention": attention(), "tokens": TOKENS, "heads": [0, 7]}, r"layer 0 has the heads \[0, 1, 2\], got 7"),
        ({"attention": attention(), "tokens": TOKENS, "sentence_b_start": 99}, "must be between 1 and"),
        ({"encoder_attention": attention(), "encoder_tokens": TOKENS, "sentence_b_start": 2}, "b_start is for"),
    ],
)
def test_wrong_arguments_are_reported(arguments, message):
    with pytest.raises(glassformer.InputError, match=message):
        head_view(**arguments)


def test_wrong_arguments_of_glass_see_are_reported(bert_folder, tmp_path, capsys):  # noqa: F811
    for arguments, message in (
        (["-o", str(tmp_path)], "name a page"),
        (["--layer", "9"], "layers [0, 1, 2], got 9"),
        (["--head", "9"], "has the heads"),
    ):
        assert main(["see", str(bert_folder), "the cat", *arguments]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "config"), [(NeuronBert, tiny_bert), (NeuronGPT2, tiny_gpt2)])
@torch.no_grad()
def test_the_neuron_view_models(kind, config, tmp_path):
    torch.manual_seed(0)
    model = kind(config()).eval()
    model.save_pretrained(tmp_path)
    model = kind.from_pretrained(tmp_path)
    ids = tokens(1, 6)
    output = model(ids)
    assert isinstance(output, tuple)
    assert isinstance(output[-1], tuple)
    assert [list(layer) for layer in output[-1]] == [["attn", "queries", "keys"]] * 3
    plain = kind.__mro__[2].from_pretrained(tmp_path)(ids, output_attentions=True)
    assert torch.equal(output[0], plain[0]) or torch.allclose(output[0], plain[0], atol=1e-5)
    for layer, weights in zip(output[-1], plain.attentions, strict=True):
        torch.testing.assert_close(layer["attn"], weights, atol=1e-6, rtol=1e-5)
    assert output[-1][0]["queries"].shape == (1, 4, 6, 12)


# --- compare-layers ---------------------------------------------------------------------------------------------------


def test_compare_layers(bert_folder, tmp_path, capsys, chromium):  # noqa: F811
    texts, path = tmp_path / "texts.txt", tmp_path / "layers.html"
    texts.write_text("the cat sat\nso good !\nthe film is bad today\n")
    assert main(["compare-layers", str(bert_folder), "--input", str(texts), "-o", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row[i] for i, row in enumerate(report["cka"])] == pytest.approx([1.0] * 4)
    assert report["compared"] == "tokens"
    assert np.shape(report["heads"][0]["entropy"]) == (3, 4)
    page = chromium.new_page()
    monitor = PageMonitor(page, path.as_uri())
    page.goto(path.as_uri())
    assert page.locator("svg").count() == 3
    page.close()
    assert not monitor.faults
    assert main(["compare-layers", str(bert_folder), str(bert_folder), "--input", str(texts)]) == 0
    assert "how widely each head looks" in capsys.readouterr().out


# --- encoder-decoders -------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_an_encoder_decoder_shows_three_kinds(chromium, tmp_path, capsys):
    torch.manual_seed(0)
    tokenizer = glassformer.BertTokenizer(vocab={word: i for i, word in enumerate(VOCAB)})
    config = tiny_transformer(vocab_size=len(VOCAB), bos_token_id=2, eos_token_id=3, decoder_start_token_id=2)
    model = glassformer.TransformerForSeq2SeqLM(config).eval()
    folder, path = tmp_path / "model", tmp_path / "page.html"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert main(["see", str(folder), "the cat sat", "--pair", "so good", "-o", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == ["[CLS]", "so", "good"]
    html = path.read_text(encoding="utf-8")
    about = json.loads(re.search(r'id="about">(.*?)</script>', html, re.DOTALL)[1])
    assert list(about["attention"]) == ["encoder", "decoder", "cross"]
    ids = torch.tensor([tokenizer.encode("the cat sat")])
    out = model(ids, decoder_input_ids=torch.tensor([[2, *tokenizer.encode("so good")[1:-1]]]), output_attentions=True)
    page, monitor = opened(chromium, html, tmp_path)
    page.get_by_label("Attention", exact=True).select_option("cross")
    page.locator("section").nth(2).locator("canvas[role=application]").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    message = page.locator("section").nth(2).locator(".status").inner_text()
    assert "1 so → 1 the" in message
    value = float(re.search(r": ([\d.e-]+) \(row sum", message)[1])
    assert value == pytest.approx(out.cross_attentions[0][0, 0, 1, 1].item(), rel=2e-5)
    for kind in ("cross", "decoder", "encoder"):  # the weights come out of queries and keys
        page.get_by_label("Attention", exact=True).select_option(kind)
        report = page.locator("section").nth(3).inner_text()
        assert "add up to 1.000000" in report
        assert float(re.search(r"model's own is ([\d.e+-]+)\.", report)[1]) < 1e-5
    view = neuron_view(model, "transformer", tokenizer, "the cat sat", "so good", html_action="return")
    assert '"cross"' in re.search(r'id="about">(.*?)</script>', view.html, re.DOTALL)[1]
    page.close()
    assert not monitor.faults
    assert main(["see", str(folder), "the cat sat", "-o", str(path), "--layer", "4", "--head", "2"]) == 0
    page, monitor = opened(chromium, path.read_text(encoding="utf-8"), tmp_path)  # its own translation
    assert page.get_by_label("Attention", exact=True).input_value() == "decoder"
    assert page.locator(".cell[aria-pressed=true]").get_attribute("aria-label") == "Layer 4 Head 2"
    page.close()
    capsys.readouterr()
    assert main(["compare-layers", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [len(row) for row in report["heads"][0]["entropy"]] == [4] * 5
    assert report["places"] == [["words", "2", "3", "4"]] * 2  # the layers of the decoder, numbered as everywhere
    model.prune_heads({1: [0, 2]})
    model.save_pretrained(folder)
    assert main(["compare-layers", str(folder), "-o", str(path)]) == 0
    assert re.search(r"^    1 {8}[\d.]{4} {8}[\d.]{4}$", capsys.readouterr().out, re.MULTILINE)


@torch.no_grad()
def test_a_recurrent_translator_shows_its_cross_attention(chromium, recurrent_folder, tmp_path, capsys):  # noqa: F811
    path = tmp_path / "page.html"
    assert main(["see", str(recurrent_folder), "the cat sat", "--pair", "so good", "-o", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["layers"], report["heads"]) == (1, [1])
    page, monitor = opened(chromium, path.read_text(encoding="utf-8"), tmp_path)
    assert page.locator("section").count() == 3  # no neuron view
    page.close()
    assert not monitor.faults
    subject = glassformer.Subject.load(recurrent_folder)
    with pytest.raises(glassformer.InputError, match="has no queries and keys"):
        neuron_view(subject.model, "rnn", subject.tokenizer, "the cat", "so good")
    blind = glassformer.RNNForSeq2SeqLM(glassformer.RNNConfig(vocab_size=50, hidden_size=16, attention="without"))
    with pytest.raises(glassformer.InputError, match="never looks at the source"):
        glassformer.Subject(blind, subject.tokenizer)
    assert main(["compare-layers", str(recurrent_folder)]) == 1
    assert "is a rnn: it has no layers of attention" in capsys.readouterr().err


def test_queries_keys_and_bias_of_a_page_give_the_weights():
    """What a page adds before scaling holds a tensor that attention adds after it."""
    torch.manual_seed(0)
    q, k, bias = torch.randn(5, 3, 4), torch.randn(5, 3, 4), torch.randn(1, 3, 5, 5)
    layout = Layout.full(1, 5)
    inputs = AttentionInputs(q, k, k, layout, layout, 0.7, bias, lambda q, k: q @ k.transpose(-1, -2) * 0.3, None)
    scores = torch.einsum("thd,shd->hts", q, k) + score_bias_of(inputs)
    torch.testing.assert_close((scores * 0.7).softmax(-1), inputs.weights([0, 1, 2])[0])
