"""Using the explorer's page: tabs, keyboard, focus, text fields and links that restore its state."""

from __future__ import annotations

import re

import pytest
import torch

from .conftest import TEXT
from .explorer_page import opened, saved, show, until


@torch.no_grad()
def test_the_page_is_usable_by_keyboard_alone(page, hostile_subject):
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
    status = page.inner_text(".status")
    assert ": 1 the → 1 the: " in status
    value = float(re.search(r": ([\d.e-]+) \(row", status)[1])
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
    until(page, "document.querySelector('.status').textContent.startsWith('Layer 1 Head 1')")


def test_a_control_keeps_the_focus_after_it_is_used(page):
    """The focus does not return to the top of the page after every choice."""
    show(page, "heat")
    page.get_by_role("button", name="Head 2", exact=True).focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.status').textContent.includes('Layer 0 Head 2')")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Head 2"
    page.get_by_label("Theme").focus()
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Theme"
    assert page.evaluate("document.querySelectorAll('.tokens button[tabindex=\"0\"]').length") == 1
    page.locator(".tokens button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('position=1')")


def test_a_cell_is_locked_and_unlocked(page):
    show(page, "heat")
    heat = page.locator("canvas[role=application]")
    heat.click(position={"x": 150, "y": 120})
    status = page.inner_text(".status")
    page.mouse.move(5, 5)
    assert page.inner_text(".status") == status
    until(page, "location.hash.includes('cell=')")
    heat.click(position={"x": 150, "y": 120})
    assert page.inner_text(".status") == "Layer 0 Head 0"
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
    until(page, "document.querySelector('.status').textContent === 'Layer 0 Head 0'")
    heat.hover(position={"x": 120, "y": 60})
    assert "row sum" in page.inner_text(".status")


def test_typing_shows_tokens_at_once_and_the_reading_later(page):
    page.fill("#text", "the dog")
    until(page, "document.querySelectorAll('.token').length === 4")
    until(page, "location.hash.includes('the+dog')")
    show(page, "arcs")
    page.fill("#text", "the dog [MASK] .")
    until(page, "document.querySelectorAll('.token').length === 6")
    assert page.locator(".token.special").count() == 3


def test_a_mask_in_the_text_is_the_predicted_position(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#text=%22the%20%5BMASK%5D%20sat%22&view=%22predict%22"):
        until(page, "document.querySelector('#panel caption')?.textContent === 'What stands at token 2 ([MASK])'")


def test_a_longer_text_is_continued_at_its_end(chromium, generator):
    for page in opened(chromium, generator[1] + "#view=%22predict%22"):
        before = page.locator(".token").count()
        page.fill("#text", "Once upon a time there was a house")
        until(page, f"document.querySelectorAll('.token').length > {before}")
        until(page, "location.hash.includes('house')")
        page.wait_for_selector("main[aria-busy=false]")
        last = page.locator(".token").count() - 1
        assert page.inner_text("#panel caption").startswith(f"What comes after token {last} ")


def test_sampling_settings_are_disabled_without_sampling(chromium, generator):
    for page in opened(chromium, generator[1] + "#view=%22generate%22"):
        assert page.get_by_label("Temperature").is_disabled()
        page.get_by_label("Sample").check()
        assert page.get_by_label("Temperature").is_enabled()


def test_another_model_resets_settings(chromium, explorer):
    """Masks, skipped layers, targets and kept heads of one model mean nothing in another."""
    kept = "kept=%7B%22heads%22%3A%7B%222%22%3A%7B%220%22%3A0%7D%7D%7D"
    for page in opened(chromium, f"{explorer[1]}#view=%22whatif%22&mask=2&position=2&skip=[2]&target=70&{kept}"):
        page.get_by_label("Model", exact=True).select_option("1")
        until(page, "location.hash.includes('model=1')")
        page.wait_for_selector("main[aria-busy=false]")
        assert page.inner_text(".error") == ""
        assert not re.search("mask|skip|target|kept", page.url)


def test_links_restore_the_state(chromium, page, explorer):
    show(page, "heat")
    page.get_by_label("Layer", exact=True).select_option("2")
    page.get_by_label("Log scale").check()
    until(page, "location.hash.includes('layer=2') && location.hash.includes('log=true')")
    for again in opened(chromium, page.url):
        again.wait_for_selector("[data-view=heat]")
        assert again.get_by_label("Layer", exact=True).input_value() == "2"
        assert again.get_by_label("Log scale").is_checked()
        assert "Layer 2" in again.inner_text(".status")
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
        ("heads", lambda page: sort_ascending(page)),
        ("attribute", lambda page: page.get_by_label("Method").select_option("occlusion")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_link_restores_a_view(chromium, page, view, change):
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
        if view != "predict":  # which shows how the probabilities changed
            assert again.inner_text("#panel") == panel
    assert (panel, view) != (before, "whatif")


def slide(page, name: str, value: str) -> None:
    page.get_by_label(name).evaluate(f"(node) => {{ node.value = {value}; node.dispatchEvent(new Event('input')); }}")


def sort_ascending(page) -> None:
    page.get_by_label("Sort by").select_option("entropy")
    page.get_by_label("lowest first").check()


def settings_of(page) -> list:
    return page.evaluate(
        "[...document.querySelectorAll('#panel input, #panel select')].map((n) => [n.value, n.checked])"
    )


def test_a_link_restores_the_locked_token(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#view=%22arcs%22&lock=[0,2]"):
        page.wait_for_selector("[data-view=arcs]")
        until(page, "document.querySelector('.status').textContent.startsWith('0.0: 2 cat → ')")
        assert saved(page, "SVG").count(b'fill="none" stroke=') > 1  # the frame of the token is saved with the lines
