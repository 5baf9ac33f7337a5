"""The explorer's page for encoder-decoders, with three kinds of attention or one."""

from __future__ import annotations

import re

import pytest
import torch

from .explorer_page import VIEWS, opened, show, until


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
        until(page, "document.querySelector('.status').textContent.includes('Layer 2')")
        page.locator("canvas[role=application]").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        status = page.inner_text(".status")
        value = float(re.search(r": 1 so → 1 the: ([\d.e-]+) \(row sum ([\d.]+)\)", status)[1])
        assert value == pytest.approx(reading.weights(2, [0], "crossattention")[0, 1, 1].item(), rel=2e-5)
        page.get_by_label("Show", exact=True).select_option("rollout")
        until(page, "document.querySelector('.status').textContent.includes('rollout')")
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
        value = float(re.search(r": 1 so → 1 the: ([\d.e-]+) \(row sum 1.0000", page.inner_text(".status"))[1])
        assert value == pytest.approx(wanted[1, 1].item(), rel=2e-5)
        show(page, "compare")
        page.locator("canvas[role=application]").nth(2).focus()
        page.keyboard.press("ArrowDown")
        assert ": 1: last vectors → 2: last vectors: 1.00000" in page.inner_text("#panel")
        show(page, "neuron")
        assert "do not come from the product of queries and keys" in page.inner_text("#panel")
        show(page, "attribute")
        assert page.locator(".scored").nth(0).locator("bdi").all_inner_texts() == reading.source.tokens


def test_a_query_token_of_the_source_does_not_change_the_target_position(chromium, translator):
    for page in opened(chromium, translator[1]):
        show(page, "neuron")
        page.get_by_label("Attention", exact=True).select_option("encoder")
        page.get_by_label("Query token").select_option("7")  # the target has three tokens
        until(page, "location.hash.includes('query=7')")
        show(page, "predict")
        assert page.locator("table tbody tr").count() == 12


def test_compare_shows_the_heads_of_the_selected_kind_of_attention(chromium, translator):
    """The heads that differ most are those of the kind that is looked at."""
    for page in opened(chromium, translator[1] + "#view=%22compare%22&part=%22cross%22&other=%22the%20dog%22"):
        page.wait_for_selector("[data-view=compare]")
        layers = {name.split()[1] for name in page.locator("table button").all_inner_texts()}
        assert layers == {"2", "3", "4"}  # of the decoder
        assert "1: distance" not in page.inner_text("#panel")  # from one text to another there is none
