"""glass compare-decoding: every strategy on the same prompts, measured, as a table and as a page."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from glassformer import GPT2LMHeadModel, GPT2Tokenizer
from glassformer.cli.compare_decoding.decoding_comparison import (
    BASE_SETTINGS,
    MEASURES,
    STRATEGIES,
    Comparison,
    Outcome,
    format_number,
    full_settings,
)
from glassformer.cli.compare_decoding.decoding_page import render_page
from glassformer.cli.main import main
from glassformer.generate.diversity import bleu, distinct, repeated_tail, repetition, self_bleu
from glassformer.generate.text_generator import GeneratedText

from ..generate.tiny_gpt2 import write_tiny_gpt2

PROMPTS = ["Once upon a time", "It didn't hide", "北京 <script>alert(1)</script>"]
HOSTILE = "</script><script>alert(2)</script><img src=x onerror=alert(3)>&amp;\x00\x1b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model whose own files request sampling, which must not influence any strategy."""
    path = write_tiny_gpt2(tmp_path_factory.mktemp("gpt2"))
    settings = {"do_sample": True, "top_k": 7, "repetition_penalty": 1.7, "eos_token_id": 0, "bos_token_id": 0}
    (path / "generation_config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def prompts(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    path.write_text("\n\n".join(PROMPTS) + "\n", encoding="utf-8")
    return path


def run(capsys, *arguments: object) -> str:
    code = main(["compare-decoding", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert captured.err == ""
    return captured.out


@pytest.fixture(scope="module")
def compared(folder, prompts, tmp_path_factory) -> tuple[dict, str]:
    """The JSON output of the command, and its page."""
    import contextlib
    import io

    page, out = tmp_path_factory.mktemp("page") / "page.html", io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["compare-decoding", str(folder), str(prompts), "-o", str(page), "--json", "--max-new-tokens", "8"])
    assert code == 0
    return json.loads(out.getvalue()), page.read_text(encoding="utf-8")


def test_every_strategy_has_every_measure(compared):
    report, _ = compared
    assert report["prompts"] == PROMPTS
    assert [outcome["name"] for outcome in report["outcomes"]] == list(STRATEGIES)
    for outcome in report["outcomes"]:
        assert list(outcome["measures"]) == [measure.key for measure in MEASURES]
        each = full_settings(STRATEGIES[outcome["name"]], 3)["num_return_sequences"]
        assert [len(texts) for texts in outcome["texts"]] == [each] * 3
        assert (outcome["measures"]["self_bleu_samples"] is None) == (each == 1)


def test_texts_of_a_strategy_follow_its_settings(compared, folder):
    report, _ = compared
    model, tokenizer = GPT2LMHeadModel.from_pretrained(folder), GPT2Tokenizer.from_pretrained(folder)
    for outcome in report["outcomes"]:
        settings = STRATEGIES[outcome["name"]]
        if settings.get("do_sample"):
            continue
        ids = torch.tensor([tokenizer.encode(PROMPTS[0])])
        new = model.generate(ids, max_new_tokens=8, **{**BASE_SETTINGS, **settings})[0, ids.shape[1] :].tolist()
        assert outcome["texts"][0][0]["ids"] == new
    texts = {outcome["name"]: json.dumps(outcome["texts"]) for outcome in report["outcomes"]}
    assert len(set(texts.values())) >= 9  # with a tiny model some may be equal


def test_measures_are_of_the_first_texts(compared, folder):
    report, _ = compared
    model, tokenizer = GPT2LMHeadModel.from_pretrained(folder), GPT2Tokenizer.from_pretrained(folder)
    for outcome in report["outcomes"][2:8:3]:
        found, firsts = outcome["measures"], [texts[0]["ids"] for texts in outcome["texts"]]
        words = [[one for one in ids if one != 0] for ids in firsts]
        assert found["distinct_2"] == distinct(words, 2)
        assert found["repetition"] == repetition(words)
        assert found["repeated_tail"] == max(map(repeated_tail, words))
        assert found["self_bleu_prompts"] == self_bleu(words)
        scores = []
        for prompt, new in zip(PROMPTS, firsts, strict=True):
            before = tokenizer.encode(prompt, split_special_tokens=True)
            labels = torch.tensor([[-100] * len(before) + new])
            loss = model(torch.tensor([before + new]), labels=labels).loss.item()
            scores += [-loss] * len(new)
        assert found["log_probability"] == pytest.approx(sum(scores) / len(scores), abs=1e-4)
        assert found["perplexity"] == pytest.approx(math.exp(-found["log_probability"]))
        assert found["tokens_per_second"] > 0
        of_prompts = [[one["ids"] for one in texts] for texts in outcome["texts"]]
        if found["self_bleu_samples"] is not None:
            alike = [[bleu(t, [o for o in texts if o is not t]) for t in texts] for texts in of_prompts]
            assert found["self_bleu_samples"] == pytest.approx(sum(sum(row) / 3 for row in alike) / 3)


def test_the_same_seed_gives_the_same_texts(folder, prompts, capsys, compared):
    flags = ("--only", "top-p", "--max-new-tokens", 8, "--json")
    outcome = next(one for one in compared[0]["outcomes"] if one["name"] == "top-p")
    assert json.loads(run(capsys, folder, prompts, *flags))["outcomes"][0]["texts"] == outcome["texts"]
    other = json.loads(run(capsys, folder, prompts, *flags, "--seed", 1))["outcomes"][0]
    assert other["texts"] != outcome["texts"]


def test_the_table_and_the_texts(folder, prompts, capsys):
    flags = ("--only", "greedy", "--only", "beam", "--max-new-tokens", 4, "--samples", 2)
    lines = run(capsys, folder, prompts, *flags).splitlines()
    assert lines[0].split() == "strategy dist-1 dist-2 dist-3 rep-4 tail BLEU-p BLEU-s log p ppl tok/s".split()
    assert [line.split()[0] for line in lines[1:3]] == ["greedy", "beam"]
    assert lines[1].split()[7] == "-"
    for prompt in PROMPTS:
        place = lines.index(prompt)
        assert lines[place + 1].startswith("  greedy  ")
        assert lines[place + 2].startswith("  beam    ")
        assert lines[place + 3].startswith("          ")  # the second of the best beams


def test_number_format():
    assert [format_number(value, 2) for value in (None, 0.125, -3.0, 123456.7)] == ["-", "0.12", "-3.00", "1.2e+05"]


# --- the page ---------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects the elements of a page, and checks that they are closed in order."""

    VOID = {"meta", "rect", "line"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_the_page_is_well_formed_and_labelled(compared):
    report, text = compared
    page = Page(text)
    assert not page.open
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("button")) == len(MEASURES) + 1
    assert all(plot["role"] == "img" and "top-p" in plot["aria-label"] for plot in page.all("svg"))
    assert len(page.all("svg")) == len(MEASURES) - 1
    assert {head["scope"] for head in page.all("th")} == {"col", "row"}
    names = {attributes.get("id") for _, attributes in page.found}
    labels = {attributes["aria-labelledby"] for _, attributes in page.found if "aria-labelledby" in attributes}
    assert labels <= names
    assert "prefers-color-scheme: dark" in text
    for outcome in report["outcomes"]:
        assert page.texts.count(outcome["name"]) == 1 + len(MEASURES) - 1 + len(PROMPTS)
    assert len(page.all("article")) == len(STRATEGIES) * len(PROMPTS)


def test_the_page_needs_no_network_and_runs_only_its_own_code(compared):
    _, text = compared
    page = Page(text)
    assert not any(name in attributes for _, attributes in page.found for name in ("src", "href", "style", "onclick"))
    assert "http" not in re.sub(r'http-equiv="', "", text)
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_texts_never_become_code():
    written = [[GeneratedText(HOSTILE, [1], "length", [1])]]
    measures = {measure.key: 0.5 for measure in MEASURES} | {"self_bleu_samples": None}
    outcome = Outcome("greedy", {"stop_strings": [HOSTILE]}, written, 1.0, measures)
    text = render_page(Comparison(HOSTILE, [HOSTILE], 8, 0, 1, [outcome]))
    page = Page(text)
    assert len(page.all("script")) == 1
    assert not page.all("img")
    shown_text = "</script><script>alert(2)</script><img src=x onerror=alert(3)>&amp;\\x00\\x1b"
    assert page.texts.count(shown_text) == 2
    assert "\x00" not in text


# --- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "topp"], "there is no strategy 'topp', did you mean 'top-p'?"),
        (["--only", "zzz"], "there is no strategy 'zzz'; there are greedy, no-repeat, "),
        (["--samples", "0"], "--samples must be 1 or more, got 0"),
        (["--max-new-tokens", "-2"], "--max-new-tokens must be 1 or more, got -2"),
        (["-o", "/no/such/folder/page.html"], "there is no folder /no/such/folder"),
    ],
)
def test_wrong_use_is_one_line(folder, prompts, arguments, message, capsys):
    assert main(["compare-decoding", str(folder), str(prompts), *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_empty_prompts_and_overwriting_are_refused(folder, prompts, tmp_path, capsys):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    assert main(["compare-decoding", str(folder), str(empty)]) == 1
    assert "empty.txt contains no prompts" in capsys.readouterr().err
    for taken in (prompts, tmp_path):
        assert main(["compare-decoding", str(folder), str(prompts), "-o", str(taken)]) == 1
        assert "--output would overwrite" in capsys.readouterr().err
