"""How the explorer's page is displayed: text that stays text, narrow screens, themes, labels and errors."""

from __future__ import annotations

import pytest

from .conftest import HOSTILE
from .explorer_page import VIEWS, opened, show, until


def test_every_view_opens_and_hostile_tokens_stay_text(page):
    for view in VIEWS:
        show(page, view)
        assert page.locator("#panel").inner_text() or page.locator("#panel canvas").count()
    assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    chips = page.locator(".token bdi").all_inner_texts()
    assert {HOSTILE[0], HOSTILE[1], "\\u202e", "🙂"} <= set(chips)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chinese_on_a_narrow_screen_in_both_themes(chromium, explorer, scheme):
    settings = {"locale": "zh-CN", "color_scheme": scheme}
    for page in opened(chromium, explorer[1], **settings):
        assert page.locator("html").get_attribute("lang") == "zh"
        page.set_viewport_size({"width": 360, "height": 740})
        for view in ("heads", "arcs", "heat", "predict"):
            show(page, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 23, 26)")


def test_every_control_has_an_accessible_name(page):
    for view in VIEWS:
        show(page, view)
        nameless = page.evaluate(
            """[...document.querySelectorAll('button, select, input, textarea, canvas')].filter((node) => {
                if (node.closest('[aria-hidden=true]')) return false;
                return !(node.getAttribute('aria-label') || node.textContent.trim() || node.closest('label'));
            }).map((node) => node.outerHTML)"""
        )
        assert not nameless, (view, nameless)


def test_the_change_of_a_prediction_fits_on_a_narrow_screen(chromium, generator):
    for page in opened(chromium, generator[1] + "#view=%22predict%22"):
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_selector("[data-view=predict]")
        box = page.get_by_role("columnheader", name="change").bounding_box()
        assert box["x"] + box["width"] <= 390


def test_the_value_stays_visible_while_a_tall_heat_map_scrolls(chromium, explorer):
    for page in opened(chromium, explorer[1] + "#view=%22heat%22&text=%22" + "the+cat+" * 30 + "%22"):
        page.set_viewport_size({"width": 1200, "height": 500})
        page.wait_for_selector("[data-view=heat]")
        heat = page.locator("canvas[role=application]")
        heat.focus()
        page.keyboard.press("ArrowDown")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        box = page.locator(".status").bounding_box()
        assert 0 <= box["y"] < 500 - box["height"]


def test_translations_insert_values_literally(page):
    status = page.evaluate("import('/translations.js').then((module) => module.translate('oneOf', '$&', \"$'\"))")
    assert status == "Layer $& Head $'"


def test_a_stopped_server_is_reported(chromium, explorer):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(explorer[1])
    page.wait_for_selector("html[data-ready=yes]")
    page.route("**/api/**", lambda route: route.abort())
    page.click("#tab-lens")
    until(page, "document.querySelector('.error').textContent.includes('is glass explore still running')")
    context.close()


def test_a_text_that_is_too_long_is_reported_until_another_is_read(chromium, explorer):
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
