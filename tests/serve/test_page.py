"""The explorer's page in a real browser: what it shows is what the model computed, and nothing else happens."""

from __future__ import annotations

import base64
import json
import re
import struct
import time
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
import torch

from glassformer import (
    BertForSequenceClassification,
    BertModel,
    Subject,
    probe_relations,
    read_relation_sentences,
)
from glassformer.explain.analysis.interventions import Change, try_change
from glassformer.serve.explorer import Explorer

from ..models.architectures import tiny_bert
from .browser import Eye
from .conftest import HOSTILE, TEXT, running

VIEWS = ("heads", "arcs", "heat", "neuron", "relations", "predict", "lens", "whatif", "attribute", "compare")
VIEWS += ("generate", "anatomy")


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


def test_related_words_lead_to_their_heads(chromium, minilm):
    """The table has the numbers of the probe, and a head of it is shown in the grid of all heads."""
    explorer = Explorer([Subject.load(minilm)], "the animal was tired")
    sentences = read_relation_sentences()[:12]
    explorer.probes[0, "en"] = probe_relations(explorer.subjects[0], sentences).to_dict()
    found = explorer.probes[0, "en"]["relations"][0]
    for _, address in running(explorer):
        for page in opened(chromium, address):
            show(page, "relations")
            row = page.locator("tbody tr").first.inner_text()
            layer, head, share = found["best"]
            assert "pronoun → noun" in row and f"{100 * share:.0f} %" in row and f"Layer {layer} Head {head}" in row
            assert f"{found['offset']:+d}" in row
            page.get_by_role("button", name=f"Layer {layer} Head {head}", exact=True).first.click()
            page.wait_for_selector("[data-view=heads]")
            assert f"Layer {layer} Head {head}:" in page.inner_text(".told >> nth=0")


def test_a_model_that_knows_none_of_the_words_says_so(page):
    show(page, "relations")
    assert "no sentence could be used" in page.inner_text("#panel")


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
    assert "[SEP]" in said
    page.get_by_label("Hide special").check()
    until(page, "!document.querySelector('.told').textContent.includes('[SEP]')")
    page.locator("canvas[role=application]").focus()
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


@pytest.mark.parametrize(
    ("view", "change"),
    [
        ("predict", lambda page: slide(page, "Temperature", "0.5")),
        ("whatif", lambda page: (page.locator("#keep-heads").click(), page.get_by_label("2", exact=True).last.check())),
        ("arcs", lambda page: (slide(page, "Hide weights below", "0.2"), page.get_by_label("Hide special").check())),
        ("compare", lambda page: (page.fill("#other", "the dog"), page.locator("#run-compare").click())),
        ("heads", lambda page: (page.get_by_label("Sort by").select_option("entropy"), lowest_first(page))),
        ("attribute", lambda page: page.get_by_label("Method").select_option("occlusion")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_link_shows_the_same_again(chromium, page, view, change):
    show(page, view)
    before = page.inner_text("#panel")
    change(page)
    page.wait_for_timeout(50)
    page.wait_for_selector("main[aria-busy=false]")
    panel, controls = page.inner_text("#panel"), settings_of(page)
    for again in opened(chromium, page.url):
        again.wait_for_selector(f"[data-view={view}]")
        again.wait_for_selector("main[aria-busy=false]")
        assert settings_of(again) == controls
        if view != "predict":  # which tells how the answer changed
            assert again.inner_text("#panel") == panel
    assert (panel, view) != (before, "whatif")


def slide(page, name: str, value: str) -> None:
    page.get_by_label(name).evaluate(f"(node) => {{ node.value = {value}; node.dispatchEvent(new Event('input')); }}")


def lowest_first(page) -> None:
    page.get_by_label("lowest first").check()


def settings_of(page) -> list:
    return page.evaluate(
        "[...document.querySelectorAll('#panel input, #panel select')].map((n) => [n.value, n.checked])"
    )


def test_heads_are_sorted_both_ways(page, explorer):
    page.get_by_label("Sort by").select_option("entropy")
    until(page, "document.querySelectorAll('.sorted .cell').length === 12")

    def values():
        return [float(each.split()[-1]) for each in page.locator(".cell span").all_inner_texts()]

    assert values() == sorted(values(), reverse=True)
    lowest_first(page)
    until(page, "location.hash.includes('lowest=true')")
    page.wait_for_selector("main[aria-busy=false]")
    assert values() == sorted(values())


def test_the_focus_stays_where_it_is(page):
    """Whoever uses the keyboard alone does not start again at the top after every choice."""
    show(page, "heat")
    page.get_by_role("button", name="Head 2", exact=True).focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.told').textContent.includes('Layer 0 Head 2')")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Head 2"
    page.get_by_label("Theme").focus()
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Theme"
    assert page.evaluate("document.querySelectorAll('.tokens button[tabindex=\"0\"]').length") == 1
    page.locator(".tokens button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('position=1')")


def test_a_cell_is_locked_and_freed(page):
    show(page, "heat")
    heat = page.locator("canvas[role=application]")
    heat.click(position={"x": 150, "y": 120})
    said = page.inner_text(".told")
    page.mouse.move(5, 5)
    assert page.inner_text(".told") == said
    until(page, "location.hash.includes('cell=')")
    heat.click(position={"x": 150, "y": 120})
    assert page.inner_text(".told") == "Layer 0 Head 0"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('cell=')")
    page.keyboard.press("Escape")
    until(page, "!location.hash.includes('cell=')")
    heat.click(position={"x": 300, "y": 250})
    page.fill("#text", "the")  # a smaller text than the cell that is locked
    until(page, "document.querySelectorAll('.token').length === 3")
    until(page, "location.hash.includes('text=%22the%22')")
    page.wait_for_selector("main[aria-busy=false]")
    until(page, "document.querySelector('.told').textContent === 'Layer 0 Head 0'")
    heat.hover(position={"x": 120, "y": 60})
    assert "row sum" in page.inner_text(".told")


def test_words_are_put_in_as_they_are(page):
    said = page.evaluate("import('/words.js').then((words) => words.say('oneOf', '$&', \"$'\"))")
    assert said == "Layer $& Head $'"


def test_a_server_that_is_gone_is_told(chromium, explorer):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(explorer[1])
    page.wait_for_selector("html[data-ready=yes]")
    page.route("**/api/**", lambda route: route.abort())
    page.click("#tab-lens")
    until(page, "document.querySelector('.error').textContent.includes('is glass explore still running')")
    context.close()


@torch.no_grad()
def test_two_texts_side_by_side(page, hostile_subject):
    show(page, "compare")
    page.get_by_label("Other model").select_option("0")
    page.fill("#other", "the dog sat")
    page.keyboard.press("Enter")
    until(page, "/^2: .*the dog sat$/.test([...document.querySelectorAll('#panel h2')].at(-1).textContent)")
    page.wait_for_selector("main[aria-busy=false]")
    heats = page.locator("#panel canvas[role=application]")
    for place, text in ((0, TEXT), (1, "the dog sat")):
        heats.nth(place).focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        said = page.locator("#panel .columns .told").nth(place).inner_text()
        value = float(re.search(r": ([\d.e-]+) \(row sum", said)[1])
        assert value == pytest.approx(hostile_subject.read(text).weights(0, [0])[0, 1, 1].item(), rel=2e-5)
    assert "CKA needs texts with the same number of tokens" in page.inner_text("#panel")
    page.locator("table button").first.click()
    until(page, "/layer=|heads=/.test(location.hash)")


def test_typing_shows_tokens_at_once_and_then_reads(page):
    page.fill("#text", "the dog")
    until(page, "document.querySelectorAll('.token').length === 4")
    until(page, "location.hash.includes('the+dog')")
    show(page, "arcs")
    page.fill("#text", "the dog [MASK] .")
    until(page, "document.querySelectorAll('.token').length === 6")
    assert page.locator(".token.special").count() == 3


def test_a_mask_in_the_text_is_what_is_asked_for(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#text=%22the%20%5BMASK%5D%20sat%22&view=%22predict%22"):
        until(page, "document.querySelector('#panel caption')?.textContent === 'What stands at token 2 ([MASK])'")


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


def saved(page, name: str) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name, exact=True).click()
    return waiting.value.path().read_bytes()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_saved_as_a_picture(page, view):
    show(page, view)
    drawing = saved(page, "SVG").decode()
    texts = [
        "".join(node.itertext()) for node in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "<script" not in drawing
    wanted = {"generate": "This model does not write.", "anatomy": "embeddings", "predict": "probability"}
    wanted |= {
        "heads": "Layer 0 Head 0",
        "compare": "probability",
        "relations": "How often a head",
    }  # their tokens are dots of a canvas
    assert any(text.startswith(wanted.get(view, "cat")) for text in texts), texts
    picture = saved(page, "PNG")
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert (width > 300, height > 50) == (True, True)
    colours = page.evaluate(
        """async (bytes) => {
            const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))]));
            const pen = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
            pen.drawImage(picture, 0, 0);
            return new Set(new Uint32Array(pen.getImageData(0, 0, picture.width, picture.height).data.buffer)).size;
        }""",
        base64.b64encode(picture).decode(),
    )
    assert colours > 5  # it is not blank


def test_the_page_is_saved_whole(page):
    show(page, "arcs")
    assert b"Content-Security-Policy" in saved(page, "HTML")


def test_the_numbers_of_a_view_are_saved(page):
    for view, has in (
        ("predict", "probability"),
        ("lens", "probability"),
        ("whatif", "moved"),
        ("attribute", "scores"),
    ):
        show(page, view)
        found = json.loads(saved(page, "JSON"))
        assert (found["view"], found["text"]) == (view, TEXT)
        assert f'"{has}": ' in json.dumps(found["found"])


def test_a_heat_map_is_saved_cell_by_cell(page):
    show(page, "heat")
    drawing = saved(page, "SVG")
    assert drawing.count(b"<rect") > 100
    assert (b"rotate(-90)" in drawing, b"rotate(-60)" in drawing) == (True, False)  # no name crosses upright ones
    values = json.loads(saved(page, "JSON"))["found"]["weights"]
    assert sum(values) == pytest.approx(len(values) ** 0.5, abs=1e-4)  # every row sums to 1


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
    until(page, "document.querySelector('#panel').textContent.includes('0.0 × 0')")
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


@torch.no_grad()
def test_a_recurrent_translator_shows_its_one_head(chromium, recurrent):
    explorer, address = recurrent
    subject = explorer.subjects[0]
    reading = subject.encode("the cat sat on the mat", "so good")
    ids, words = torch.tensor([reading.source.ids]), torch.tensor([reading.ids])
    wanted = subject.model(ids, decoder_input_ids=words, output_attentions=True).cross_attentions[0][0, 0]
    for page in opened(chromium, address):
        assert page.locator(".cell").count() == 1
        for view in VIEWS:
            show(page, view)
        show(page, "heat")
        assert "rollout" not in page.inner_text("#panel")
        page.locator("canvas[role=application]").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        value = float(re.search(r": 1 so → 1 the: ([\d.e-]+) \(row sum 1.0000", page.inner_text(".told"))[1])
        assert value == pytest.approx(wanted[1, 1].item(), rel=2e-5)
        show(page, "compare")
        page.locator("canvas[role=application]").nth(2).focus()
        page.keyboard.press("ArrowDown")
        assert ": 1: last vectors → 2: last vectors: 1.00000" in page.inner_text("#panel")
        show(page, "neuron")
        assert "do not come from the product of queries and keys" in page.inner_text("#panel")
        show(page, "attribute")
        assert page.locator(".scored").nth(0).locator("bdi").all_inner_texts() == reading.source.tokens


def test_a_query_of_the_source_leaves_the_target_alone(chromium, translator):
    for page in opened(chromium, translator[1]):
        show(page, "neuron")
        page.get_by_label("Attention", exact=True).select_option("encoder")
        page.get_by_label("Query token").select_option("7")  # the target has three tokens
        until(page, "location.hash.includes('query=7')")
        show(page, "predict")
        assert page.locator("table tbody tr").count() == 12


def test_a_link_holds_the_locked_token(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#view=%22arcs%22&lock=[0,2]"):
        page.wait_for_selector("[data-view=arcs]")
        until(page, "document.querySelector('.told').textContent.startsWith('0.0: 2 cat → ')")
        assert saved(page, "SVG").count(b'fill="none" stroke=') > 1  # the frame of the token is saved with the lines


def test_another_model_starts_afresh(chromium, explorer):
    """What was hidden, left out or asked about in one model means nothing in another."""
    kept = "kept=%7B%22heads%22%3A%7B%222%22%3A%7B%220%22%3A0%7D%7D%7D"
    for page in opened(chromium, f"{explorer[1]}#view=%22whatif%22&mask=2&position=2&skip=[2]&target=70&{kept}"):
        page.get_by_label("Model", exact=True).select_option("1")
        until(page, "location.hash.includes('model=1')")
        page.wait_for_selector("main[aria-busy=false]")
        assert page.inner_text(".error") == ""
        assert not re.search("mask|skip|target|kept", page.url)


def test_a_text_that_cannot_be_read_is_told_until_another_is(chromium, explorer):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(explorer[1] + "#text=%22" + "the+" * 100 + "%22")
    page.wait_for_selector("html[data-ready=yes]")
    for view in ("arcs", "predict"):
        page.click(f"#tab-{view}")
        assert "the text has 102 tokens, and this model reads at most 64" in page.inner_text(".error")
    page.fill("#text", "the cat")
    until(page, "document.querySelector('.error').textContent === ''")
    page.wait_for_selector("[data-view=predict]")
    page.fill("#text", "the " * 100)
    until(page, "document.querySelector('.error').textContent.includes('has 102 tokens')")
    page.click("#tab-heat")
    page.wait_for_selector("[data-view=heat]")
    assert "has 102 tokens" in page.inner_text(".error")  # what is shown is still the text before
    context.close()


def test_a_longer_text_is_continued_at_its_end(chromium, writer):
    for page in opened(chromium, writer[1] + "#view=%22predict%22"):
        before = page.locator(".token").count()
        page.fill("#text", "Once upon a time there was a house")
        until(page, f"document.querySelectorAll('.token').length > {before}")
        until(page, "location.hash.includes('house')")
        page.wait_for_selector("main[aria-busy=false]")
        last = page.locator(".token").count() - 1
        assert page.inner_text("#panel caption").startswith(f"What comes after token {last} ")


def test_settings_of_a_sample_wait_for_one(chromium, writer):
    for page in opened(chromium, writer[1] + "#view=%22generate%22"):
        assert page.get_by_label("Temperature").is_disabled()
        page.get_by_label("Sample").check()
        assert page.get_by_label("Temperature").is_enabled()


def test_the_change_of_a_prediction_fits_on_a_narrow_screen(chromium, writer):
    for page in opened(chromium, writer[1] + "#view=%22predict%22"):
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_selector("[data-view=predict]")
        box = page.get_by_role("columnheader", name="change").bounding_box()
        assert box["x"] + box["width"] <= 390


def test_answers_stand_with_their_model(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#view=%22compare%22&model=1"):
        page.wait_for_selector("[data-view=compare]")
        assert page.inner_text("#panel .note >> nth=0").startswith("1: This model has no head for words or labels")
        assert page.inner_text("#panel caption >> nth=0").startswith("2: What stands at token 0")


def test_a_number_is_no_probability(chromium, hostile_subject):
    model = BertForSequenceClassification(
        tiny_bert(vocab_size=hostile_subject.model.config.vocab_size, num_labels=1, problem_type="regression")
    ).eval()
    subject = Subject(model, hostile_subject.tokenizer)
    with torch.no_grad():
        wanted = model(torch.tensor([subject.encode("the cat").ids])).logits.item()
    for _, address in running(Explorer([subject], "the cat")):
        for page in opened(chromium, address):
            show(page, "predict")
            assert page.locator("thead th").all_inner_texts() == ["Label", "value", "change", ""]
            assert float(page.inner_text("tbody td >> nth=0")) == pytest.approx(wanted, abs=1e-5)
            assert page.get_by_label("Temperature").count() == 0
            show(page, "whatif")
            assert "bits" not in page.inner_text("#panel")
            assert page.locator("#panel table").count() == 2


def test_kinds_of_attention_are_compared_with_their_like(chromium, translator):
    """The heads that differ most are those of the kind that is looked at."""
    for page in opened(chromium, translator[1] + "#view=%22compare%22&part=%22cross%22&other=%22the%20dog%22"):
        page.wait_for_selector("[data-view=compare]")
        layers = {name.split()[1] for name in page.locator("table button").all_inner_texts()}
        assert layers == {"2", "3", "4"}  # of the decoder
        assert "1: distance" not in page.inner_text("#panel")  # from one text to another there is none


def test_a_head_that_the_other_model_lacks_is_told(chromium, hostile_subject):
    small = BertModel(tiny_bert(vocab_size=hostile_subject.model.config.vocab_size, num_hidden_layers=1)).eval()
    for _, address in running(Explorer([hostile_subject, Subject(small, hostile_subject.tokenizer)], "the cat")):
        for page in opened(chromium, address + "#view=%22compare%22&layer=2"):
            page.wait_for_selector("[data-view=compare]")
            assert "There is no Layer 2 Head 0 here." in page.inner_text("#panel")
            assert page.locator("#panel .columns canvas:visible").count() == 2  # of the first, with its upper layer


def test_the_value_stays_in_sight_below_a_tall_heat_map(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#view=%22heat%22&text=%22" + "the+cat+" * 30 + "%22"):
        page.set_viewport_size({"width": 1200, "height": 500})
        page.wait_for_selector("[data-view=heat]")
        heat = page.locator("canvas[role=application]")
        heat.focus()
        page.keyboard.press("ArrowDown")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        box = page.locator(".told").bounding_box()
        assert 0 <= box["y"] < 500 - box["height"]
