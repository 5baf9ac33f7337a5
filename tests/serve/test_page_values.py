"""The numbers on the explorer's page are those of the model."""

from __future__ import annotations

import re

import pytest
import torch

from glassformer import (
    BertForSequenceClassification,
    BertModel,
    Subject,
    probe_relations,
    read_relation_sentences,
)
from glassformer.serve.explorer import Explorer

from ..models.architectures import tiny_bert
from .conftest import TEXT, running
from .explorer_page import opened, show, until


@torch.no_grad()
def test_the_heat_map_shows_the_weights_of_the_model(page, hostile_subject):
    reading = hostile_subject.read(TEXT)
    show(page, "heat")
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_role("button", name="Head 2", exact=True).click()
    until(page, "document.querySelector('.status').textContent.includes('Layer 1 Head 2')")
    weights = reading.weights(1, [2])[0]
    page.set_viewport_size({"width": 1200, "height": 1200})  # all of it in sight
    box = page.locator("canvas[role=application]").bounding_box()
    count, available = len(reading), page.evaluate("document.getElementById('panel').clientWidth")
    label = min(110, available * 0.25)  # the geometry of heat_map.js
    cell = min(26, (available - label - 44) // count)
    for row, column in ((0, 0), (3, 5), (count - 1, count - 1), (2, count - 2)):
        page.mouse.move(box["x"] + label + (column + 0.5) * cell, box["y"] + 80 + (row + 0.5) * cell)
        status = page.inner_text(".status")
        found = re.search(r": (\d+) .* → (\d+) .*: ([\d.e-]+) \(row sum ([\d.]+)\)", status)
        assert found, status
        assert (int(found[1]), int(found[2])) == (row, column)
        assert float(found[3]) == pytest.approx(weights[row, column].item(), rel=2e-5)
        assert float(found[4]) == pytest.approx(1, abs=2e-5)


@torch.no_grad()
def test_the_head_view_reports_the_largest_weights(page, hostile_subject):
    reading = hostile_subject.read(TEXT)
    show(page, "arcs")
    page.locator("canvas[role=application]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    status = page.inner_text(".status")
    best = reading.weights(0, [0])[0, 2].topk(5)
    assert status.startswith(f"0.0: 2 {reading.tokens[2]} → ")
    values = [float(each.rsplit(" ", 1)[1]) for each in status.split(" → ")[1].split(", ")]
    assert values == pytest.approx(best.values.tolist(), rel=2e-5)
    page.keyboard.press("Enter")
    page.mouse.move(5, 5)
    assert page.inner_text(".status") == status  # locked
    assert "[SEP]" in status
    page.get_by_label("Hide special").check()
    until(page, "!document.querySelector('.status').textContent.includes('[SEP]')")
    page.locator("canvas[role=application]").focus()
    page.keyboard.press("Escape")
    assert page.inner_text(".status") == ""


def test_weights_in_the_neuron_view_sum_to_one(page):
    show(page, "neuron")
    assert "The weights add up to 1.000000" in page.inner_text("#panel")
    off = float(re.search(r"model's own is ([\d.e+-]+)\.", page.inner_text("#panel"))[1])
    assert off < 1e-5


def test_heads_are_sorted_in_both_directions(page, explorer):
    page.get_by_label("Sort by").select_option("entropy")
    until(page, "document.querySelectorAll('.sorted .cell').length === 12")

    def values():
        return [float(each.split()[-1]) for each in page.locator(".cell span").all_inner_texts()]

    assert values() == sorted(values(), reverse=True)
    page.get_by_label("lowest first").check()
    until(page, "location.hash.includes('lowest=true')")
    page.wait_for_selector("main[aria-busy=false]")
    assert values() == sorted(values())


@torch.no_grad()
def test_two_texts_are_compared(page, hostile_subject):
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
        status = page.locator("#panel .columns .status").nth(place).inner_text()
        value = float(re.search(r": ([\d.e-]+) \(row sum", status)[1])
        assert value == pytest.approx(hostile_subject.read(text).weights(0, [0])[0, 1, 1].item(), rel=2e-5)
    assert "CKA needs texts with the same number of tokens" in page.inner_text("#panel")
    page.locator("table button").first.click()
    until(page, "/layer=|heads=/.test(location.hash)")


def test_predictions_are_labelled_with_their_model(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#view=%22compare%22&model=1"):
        page.wait_for_selector("[data-view=compare]")
        assert page.inner_text("#panel .note >> nth=0").startswith("1: This model has no head for words or labels")
        assert page.inner_text("#panel caption >> nth=0").startswith("2: What stands at token 0")


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


def test_a_generation_is_played_back(chromium, generator):
    for page in opened(chromium, generator[1]):
        show(page, "generate")
        assert page.inner_text("#panel .status").startswith("1 / 20")
        page.get_by_role("button", name="Forward").click()
        assert page.inner_text("#panel .status").startswith("2 / 20")
        for view in ("predict", "lens", "neuron", "attribute"):
            show(page, view)


def test_a_regression_shows_a_value_and_no_probability(chromium, hostile_subject):
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


def test_a_head_that_the_other_model_lacks_is_reported(chromium, hostile_subject):
    small = BertModel(tiny_bert(vocab_size=hostile_subject.model.config.vocab_size, num_hidden_layers=1)).eval()
    for _, address in running(Explorer([hostile_subject, Subject(small, hostile_subject.tokenizer)], "the cat")):
        for page in opened(chromium, address + "#view=%22compare%22&layer=2"):
            page.wait_for_selector("[data-view=compare]")
            assert "There is no Layer 2 Head 0 here." in page.inner_text("#panel")
            assert page.locator("#panel .columns canvas:visible").count() == 2  # of the first, with its upper layer


def test_related_words_lead_to_their_heads(chromium, minilm):
    """The table has the numbers of the probe, and a head of it is shown in the grid of all heads."""
    explorer = Explorer([Subject.load(minilm)], "the animal was tired")
    sentences = read_relation_sentences()[:12]
    explorer.probes[0, "en"] = probe_relations(explorer.subjects[0], sentences).to_dict()
    pronouns = explorer.probes[0, "en"]["relations"][0]
    for _, address in running(explorer):
        for page in opened(chromium, address):
            show(page, "relations")
            row = page.locator("tbody tr").first.inner_text()
            layer, head, share = pronouns["best"]
            assert "pronoun → noun" in row and f"{100 * share:.0f} %" in row and f"Layer {layer} Head {head}" in row
            assert f"{pronouns['offset']:+d}" in row
            page.get_by_role("button", name=f"Layer {layer} Head {head}", exact=True).first.click()
            page.wait_for_selector("[data-view=heads]")
            assert f"Layer {layer} Head {head}:" in page.inner_text(".status >> nth=0")


def test_a_model_that_knows_none_of_the_words_reports_it(page):
    show(page, "relations")
    assert "no sentence could be used" in page.inner_text("#panel")
