"""Attention drawn over a picture: rollout, the page, and the explorer, in a real browser."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import InputError, attention_rollout
from glassformer.cli.main import main
from glassformer.explain.pages.picture_page import picture_page
from glassformer.explain.picture_reading import load_image_task, read_attention
from glassformer.serve.picture_explorer import PictureExplorer, open_explorer

from ..models.architectures import tiny_vit
from ..serve.browser import PageMonitor
from ..serve.explorer_page import until

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    model = glassformer.ViTForImageClassification(tiny_vit(num_labels=3, id2label={0: HOSTILE, 1: "b", 2: "c"}))
    model.prune_heads({1: [2]})
    model.save_pretrained(path)
    glassformer.ViTImageProcessor(size=16).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("picture") / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3)).astype(np.uint8)).save(path)
    return str(path)


def test_rollout_is_the_product_of_half_attention_and_half_residual():
    torch.manual_seed(0)
    weights = [torch.randn(2, 4, 5, 5).softmax(-1) for _ in range(3)]
    found = attention_rollout(weights)
    for batch in range(2):
        flow = np.eye(5)
        for layer, each in enumerate(weights):
            mixed = each[batch].numpy().mean(0) + np.eye(5)
            flow = mixed / mixed.sum(-1, keepdims=True) @ flow  # as in the paper: add, normalise, multiply
            np.testing.assert_allclose(found[layer][batch], flow, rtol=1e-5, atol=1e-6)
    assert torch.equal(attention_rollout(weights, residual=1.0)[-1], torch.eye(5).expand(2, 5, 5))
    assert torch.allclose(attention_rollout(weights[:1], residual=0.0)[0], weights[0].mean(1))
    for wrong in ((), weights[0]):
        with pytest.raises(InputError):
            attention_rollout(wrong)
    with pytest.raises(InputError, match="among the same tokens"):
        attention_rollout([torch.rand(1, 2, 3, 4)])
    with pytest.raises(InputError, match="a residual from 0 to 1"):
        attention_rollout(weights, residual=2)


@torch.no_grad()
def test_a_reading_holds_the_models_own_weights(folder, file):
    task = load_image_task(folder)
    reading = read_attention(task, file)
    pixels = task.image_processor(file, return_tensors="pt")["pixel_values"]
    attentions = task.model(pixels, output_attentions=True).attentions
    assert reading.grid == (4, 4) and len(reading.tokens) == 17 and reading.tokens[6] == "1,1"
    assert [head for layer, head in reading.weights if layer == 1] == [0, 1, 3]  # head 2 is pruned
    assert torch.allclose(reading.weights[1, 3], attentions[1][0, 2], atol=1e-6)
    assert torch.allclose(reading.rollout[-1], attention_rollout(attentions)[-1][0], atol=1e-6)
    assert [each["score"] for each in reading.answers] == [
        each["score"] for each in task.with_options(top_k=3).answer({}, [], [task.model(pixels).logits[0]])
    ]
    assert reading.picture.shape == (60, 90, 3)


def opened(browser, address: str):
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(60_000)
    monitor = PageMonitor(page, address)
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    return page, monitor


@torch.no_grad()
def test_the_page_of_glass_see(chromium, folder, file, tmp_path, capsys):
    path = tmp_path / "see.html"
    assert main(["see", str(folder), file, "-o", str(path), "--layer", "1", "--head", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["grid"], report["heads"]) == ([4, 4], [4, 3, 4]) and report["bytes"] == path.stat().st_size
    html = path.read_text("utf-8")
    assert "default-src 'none'" in html and "img-src" not in html and HOSTILE not in html
    reading = read_attention(load_image_task(folder), file)
    page, monitor = opened(chromium, path.as_uri())
    assert page.locator(".cell").count() == 11 and HOSTILE in page.inner_text("table")
    canvas = page.locator("canvas[role=application]")
    drawn = "canvas => canvas.toDataURL()"
    before = canvas.evaluate(drawn)
    canvas.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):  # the first patch, the one below, the one to its right
        page.keyboard.press(key)

    def shown() -> float:
        status = page.locator(".status").inner_text()
        assert "patch (1, 1)" in status.rpartition(" on ")[2]
        return float(status.rpartition(" on ")[0].rpartition(" ")[2])

    assert shown() == pytest.approx(float(reading.weights[1, 3][0, 6]), rel=1e-4)
    page.get_by_label("Show").select_option("rollout")
    assert shown() == pytest.approx(float(reading.rollout[1][0, 6]), rel=1e-4)
    assert canvas.evaluate(drawn) != before
    page.get_by_label("Show").select_option("mean")
    mean = torch.stack([reading.weights[1, head] for head in (0, 1, 3)]).mean(0)
    assert shown() == pytest.approx(float(mean[0, 6]), rel=1e-4)
    page.keyboard.press("Tab")
    canvas.focus()
    page.keyboard.press("Enter")  # from this patch
    assert shown() == pytest.approx(float(mean[6, 6]), rel=1e-4)
    page.locator(".cell").nth(2).click()
    assert shown() == pytest.approx(float(reading.weights[0, 2][6, 6]), rel=1e-4)
    page.get_by_role("button", name="Back to [CLS]").click()
    assert "[CLS], Layer 0 Head 2" in page.locator(".status").inner_text()
    page.get_by_label("Weights as").select_option("colour")
    page.get_by_label("Smooth").uncheck()
    for name in ("PNG", "JSON"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name).click()
        assert waiting.value.path().stat().st_size > 100
    values = json.loads(waiting.value.path().read_text())["weights"]
    assert values == pytest.approx(reading.weights[0, 2][0].tolist(), rel=1e-5)
    page.close()
    assert not monitor.faults


def test_the_explorer_sees_a_picture_that_is_chosen(chromium, folder, file, tmp_path):
    explorer = open_explorer([str(folder)], None)
    assert isinstance(explorer, PictureExplorer)
    server = explorer.serve()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        page, monitor = opened(chromium, server.address)
        assert page.locator("canvas").count() == 0
        page.set_input_files("input[type=file]", file)
        page.wait_for_selector("canvas[role=application]")
        assert page.locator(".cell").count() == 11
        (tmp_path / "broken.png").write_bytes(b"\x89PNG nothing")
        page.set_input_files("input[type=file]", str(tmp_path / "broken.png"))
        until(page, "document.querySelector('.error').textContent.includes('damaged, or no picture')")
        page.get_by_label("Language").select_option("zh")
        assert page.locator("canvas[role=application]").count() == 1
        with page.expect_download() as waiting:
            page.get_by_role("button", name="HTML").click()
        assert 'id="numbers"' in waiting.value.path().read_text("utf-8")
        page.close()
        assert monitor.faults == [
            "console: Failed to load resource: the server responded with a status of 400 (Bad Request)"
        ]
    finally:
        server.shutdown()
        server.server_close()


def test_what_the_explorer_refuses(folder, file):
    explorer = PictureExplorer(load_image_task(folder))
    with pytest.raises(InputError, match="no picture has been seen"):
        explorer.picture({})
    for wrong in ("****", 5, [1]):
        with pytest.raises(InputError, match="base64"):
            explorer.picture({"picture": wrong})
    seen = explorer.picture({"picture": base64.b64encode(Path(file).read_bytes()).decode()})
    assert seen["about"]["picture"]["rows"] == 4
    with pytest.raises(InputError, match="one at a time"):
        open_explorer([str(folder), str(folder)], None)
    assert main(["see", str(folder), file, "--pair", "text"]) == 1
    with pytest.raises(InputError, match="there are the layers"):
        picture_page(read_attention(explorer.task, file), layer=7)


def test_a_service_reads_no_files_of_its_machine(folder, file):
    task = load_image_task(folder)
    task.reads_files = False
    for given in (file, {"image": file}, {"image": {"path": file}}):
        with pytest.raises(InputError, match="must be the picture itself"):
            task.read(given)
    address = "data:image/png;base64," + base64.b64encode(Path(file).read_bytes()).decode()
    assert task.read({"image": address})["image"] == address
