"""The explorer's page in a real browser: what it shows is what the model computed, and nothing else happens."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
import torch

from glassformer.explain.whatif import Change, try_change

from .browser import Eye
from .conftest import HOSTILE, TEXT

VIEWS = ("heads", "arcs", "heat", "neuron", "predict", "lens", "whatif", "attribute", "compare", "generate", "anatomy")


def opened(chromium, address: str, **settings) -> Iterator:
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, **settings)
    page = context.new_page()
    page.set_default_timeout(60_000)
    eye = Eye(page, address.split("#")[0])
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    yield page
    context.close()
    assert not eye.faults


@pytest.fixture
def page(chromium, explorer) -> Iterator:
    yield from opened(chromium, explorer[1])


def until(page, expression: str) -> None:
    """Wait until an expression is true; `wait_for_function` would need an eval that the page's policy forbids."""
    deadline = time.monotonic() + 20
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def show(page, view: str) -> None:
    page.click(f"#tab-{view}")
    page.wait_for_selector(f"[data-view={view}]")
    page.wait_for_selector("main[aria-busy=false]")
    assert page.inner_text(".error") == ""


def test_every_view_opens_and_hostile_tokens_stay_text(page):
    for view in VIEWS:
        show(page, view)
        assert page.locator("#panel").inner_text() or page.locator("#panel canvas").count()
    assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    chips = page.locator(".token bdi").all_inner_texts()
    assert {HOSTILE[0], HOSTILE[1], "\\u202e", "🙂"} <= set(chips)


@torch.no_grad()
def test_values_under_the_pointer_are_the_models(page, hostile_subject):
    reading = hostile_subject.read(TEXT)
    show(page, "heat")
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_role("button", name="Head 2", exact=True).click()
    until(page, "document.querySelector('.told').textContent.includes('Layer 1 Head 2')")
    weights = reading.weights(1, [2])[0]
    page.set_viewport_size({"width": 1200, "height": 1200})  # all of it in sight
    box = page.locator("canvas[role=application]").bounding_box()
    count, room = len(reading), page.evaluate("document.getElementById('panel').clientWidth")
    label = min(110, room * 0.25)  # the geometry of heat.js
    cell = min(26, (room - label - 44) // count)
    for row, column in ((0, 0), (3, 5), (count - 1, count - 1), (2, count - 2)):
        page.mouse.move(box["x"] + label + (column + 0.5) * cell, box["y"] + 80 + (row + 0.5) * cell)
        said = page.inner_text(".told")
        found = re.search(r": (\d+) .* → (\d+) .*: ([\d.e-]+) \(row sum ([\d.]+)\)", said)
        assert found, said
        assert (int(found[1]), int(found[2])) == (row, column)
        assert float(found[3]) == pytest.approx(weights[row, column].item(), rel=2e-5)
        assert float(found[4]) == pytest.approx(1, abs=2e-5)


@torch.no_grad()
def test_by_keyboard_alone(page, hostile_subject):
    reading = hostile_subject.read(TEXT)
    page.locator("#tab-heads").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-view=heat]")
    for _ in range(40):  # tab on to the picture
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "CANVAS":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    said = page.inner_text(".told")
    assert ": 1 the → 1 the: " in said
    value = float(re.search(r": ([\d.e-]+) \(row", said)[1])
    assert value == pytest.approx(reading.weights(0, [0])[0, 1, 1].item(), rel=2e-5)
    page.locator("#tab-heat").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[data-view=heads]")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "cell":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.told').textContent.startsWith('Layer 1 Head 1')")


@torch.no_grad()
def test_the_head_view_tells_the_largest_weights(page, hostile_subject):
    reading = hostile_subject.read(TEXT)
    show(page, "arcs")
    page.locator("canvas[role=application]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    said = page.inner_text(".told")
    best = reading.weights(0, [0])[0, 2].topk(5)
    assert said.startswith(f"0.0: 2 {reading.tokens[2]} → ")
    values = [float(each.rsplit(" ", 1)[1]) for each in said.split(" → ")[1].split(", ")]
    assert values == pytest.approx(best.values.tolist(), rel=2e-5)
    page.keyboard.press("Enter")
    page.mouse.move(5, 5)
    assert page.inner_text(".told") == said  # locked
    page.keyboard.press("Escape")
    assert page.inner_text(".told") == ""


def test_neurons_add_up(page):
    show(page, "neuron")
    assert "The weights add up to 1.000000" in page.inner_text("#panel")
    off = float(re.search(r"model's own is ([\d.e+-]+)\.", page.inner_text("#panel"))[1])
    assert off < 1e-5


def test_links_hold_the_state(chromium, page, explorer):
    show(page, "heat")
    page.get_by_label("Layer", exact=True).select_option("2")
    page.get_by_label("Log scale").check()
    until(page, "location.hash.includes('layer=2') && location.hash.includes('log=true')")
    for again in opened(chromium, page.url):
        again.wait_for_selector("[data-view=heat]")
        assert again.get_by_label("Layer", exact=True).input_value() == "2"
        assert again.get_by_label("Log scale").is_checked()
        assert "Layer 2" in again.inner_text(".told")
    hostile = explorer[1] + "#view=%22%3Cimg%22&layer=99&heads=[%22x%22]&text=%7B&threshold=%22%22"
    for again in opened(chromium, hostile):
        assert again.locator("#tab-heads").get_attribute("aria-selected") == "true"


def test_typing_shows_tokens_at_once_and_then_reads(page):
    page.fill("#text", "the dog")
    until(page, "document.querySelectorAll('.token').length === 4")
    until(page, "location.hash.includes('the+dog')")
    show(page, "arcs")
    page.fill("#text", "the dog [MASK] .")
    until(page, "document.querySelectorAll('.token').length === 6")
    assert page.locator(".token.special").count() == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chinese_narrow_and_both_themes(chromium, explorer, scheme):
    settings = {"locale": "zh-CN", "color_scheme": scheme}
    for page in opened(chromium, explorer[1], **settings):
        assert page.locator("html").get_attribute("lang") == "zh"
        page.set_viewport_size({"width": 360, "height": 740})
        for view in ("heads", "arcs", "heat", "predict"):
            show(page, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 23, 26)")


def test_everything_has_a_name(page):
    for view in VIEWS:
        show(page, view)
        nameless = page.evaluate(
            """[...document.querySelectorAll('button, select, input, textarea, canvas')].filter((node) => {
                if (node.closest('[aria-hidden=true]')) return false;
                return !(node.getAttribute('aria-label') || node.textContent.trim() || node.closest('label'));
            }).map((node) => node.outerHTML)"""
        )
        assert not nameless, (view, nameless)


def test_files_can_be_saved(page):
    show(page, "arcs")
    for name in ("HTML", "PNG", "SVG", "JSON"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name, exact=True).click()
        content = waiting.value.path().read_bytes()
        assert len(content) > 200
        if name == "SVG":
            assert b"<script" not in content
            assert content.startswith(b"<svg")


def test_the_numbers_of_a_view_are_saved(page):
    for view, has in (
        ("predict", "probability"),
        ("lens", "probability"),
        ("whatif", "moved"),
        ("attribute", "scores"),
    ):
        show(page, view)
        with page.expect_download() as waiting:
            page.get_by_role("button", name="JSON", exact=True).click()
        saved = json.loads(waiting.value.path().read_text(encoding="utf-8"))
        assert (saved["view"], saved["text"]) == (view, TEXT)
        assert f'"{has}": ' in json.dumps(saved["found"])


def test_what_cannot_be_saved_is_told(page):
    show(page, "anatomy")
    page.get_by_role("button", name="PNG", exact=True).click()
    assert "no such drawing" in page.inner_text(".error")
    show(page, "compare")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="SVG", exact=True).click()
    assert waiting.value.path().read_text(encoding="utf-8").count("<rect") == 16  # of every layer with every other


def test_generation_plays(chromium, writer):
    for page in opened(chromium, writer[1]):
        show(page, "generate")
        assert page.inner_text("#panel .told").startswith("1 / 20")
        page.get_by_role("button", name="Forward").click()
        assert page.inner_text("#panel .told").startswith("2 / 20")
        for view in ("predict", "lens", "neuron", "attribute"):
            show(page, view)


@torch.no_grad()
def test_heads_of_several_layers_can_be_switched_off_together(page, hostile_subject):
    show(page, "whatif")
    page.locator("#keep-heads").click()
    page.get_by_label("Layer", exact=True).select_option("2")
    until(page, "document.querySelector('#panel .hint').textContent.includes('0.0 × 0')")
    page.locator("main[aria-busy=false]").wait_for()
    mask = torch.ones(3, 4)
    mask[0, 0] = mask[2, 0] = 0
    reading = hostile_subject.read(TEXT)
    logits = hostile_subject.model(torch.tensor([reading.ids]), head_mask=mask).logits[0, 0]
    best = f"{logits.softmax(-1).max().item():.5f}"
    until(page, f"document.querySelectorAll('#panel table')[1]?.querySelector('td').textContent === '{best}'")


@torch.no_grad()
def test_an_encoder_decoder_has_three_kinds_of_attention(chromium, translator):
    explorer, address = translator
    subject = explorer.subjects[0]
    reading = subject.read("the cat sat on the mat", "so good")
    for page in opened(chromium, address):
        assert page.locator("button.token bdi").all_inner_texts() == ["[CLS]", "so", "good"]
        assert page.locator(".source bdi").all_inner_texts() == reading.source.tokens
        show(page, "heat")
        page.get_by_label("Attention", exact=True).select_option("cross")
        until(page, "document.querySelector('.told').textContent.includes('Layer 2')")
        page.locator("canvas[role=application]").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        said = page.inner_text(".told")
        value = float(re.search(r": 1 so → 1 the: ([\d.e-]+) \(row sum ([\d.]+)\)", said)[1])
        assert value == pytest.approx(reading.weights(2, [0], "crossattention")[0, 1, 1].item(), rel=2e-5)
        page.get_by_label("Show", exact=True).select_option("rollout")
        until(page, "document.querySelector('.told').textContent.includes('rollout')")
        assert "rows of both together add up to 1" in page.inner_text("#panel")
        for view in VIEWS:
            show(page, view)
        show(page, "attribute")
        scored = page.locator(".scored")
        assert scored.nth(0).locator("bdi").all_inner_texts() == reading.source.tokens
        assert scored.nth(1).locator("bdi").all_inner_texts() == reading.tokens
        page.click("#tab-neuron")
        until(page, "document.getElementById('panel').textContent.includes('add up to 1.000000')")
        page.get_by_label("Attention", exact=True).select_option("decoder")
        until(page, "document.getElementById('panel').textContent.includes('add up to 1.000000')")


@torch.no_grad()
def test_switching_cross_heads_off(translator):
    explorer, _ = translator
    subject = explorer.subjects[0]
    reading = subject.read("the cat sat", "so good")
    effect = try_change(reading, Change(cross_heads={2: {1: 0.0}}), position=1)
    mask = torch.ones(3, 4)
    mask[0, 1] = 0
    ids, words = torch.tensor([reading.source.ids]), torch.tensor([reading.ids])
    logits = subject.model(ids, decoder_input_ids=words, cross_attn_head_mask=mask).logits[0, 1]
    assert effect.after[0].probability == pytest.approx(logits.softmax(-1).max().item(), abs=1e-5)
    assert effect.divergence > 0
