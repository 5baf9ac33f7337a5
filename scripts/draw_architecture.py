"""Draw docs/pictures/architecture.png: the folders of the package, what each makes of what, and who imports whom.

    python scripts/draw_architecture.py

The marks are the imports that are in the code at this moment. Needs matplotlib.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import glassformer

PACKAGE = Path(glassformer.__file__).parent
PICTURE = PACKAGE.parent / "docs/pictures/architecture.png"
FOLDERS = {  # from top to bottom, as data flows: what goes in and comes out, and what is inside
    "errors": ("", "every exception, as one tree"),
    "registry": ("", "one entry per architecture: config, classes, tokenizer"),
    "text": ("text → ids", "tokenizers, vocabulary training, explanations"),
    "audio": ("sound → features", "sound files, resampling, log-mel spectrograms"),
    "images": ("pictures → pixels", "picture files, resizing, image processors"),
    "nn": ("tensor → tensor", "layout, context, attention, cache, prepared weights"),
    "checkpoints": ("files ↔ weights", "config files, safetensors, key tables, hub and mirrors"),
    "models": ("ids → logits", "one file per architecture; body, heads, outputs"),
    "generate": ("logits → text", "settings, searches, sampling, streams"),
    "data": ("files → rows", "readers, masking, pairing, packing"),
    "tasks": ("rows → answers, losses", "one file per task; pipeline"),
    "train": ("losses → weights", "step, optimizer, schedule, trainer, resume"),
    "explain": ("model → views", "capture, patches, analyses, pages"),
    "serve": ("views → browser", "explorer: local server and page"),
    "scale": ("files → parts", "a predictor for engines of many machines"),
    "export": ("weights → other files", "ONNX and GGUF"),
    "cli": ("shell → all of it", "one file per verb"),
}


def imports_of(path: Path) -> dict[str, bool]:
    """The folders that a file imports from -> whether it does so when it is imported, and not later in a function."""
    found: dict[str, bool] = {}
    package = ("glassformer", *path.relative_to(PACKAGE).parent.parts)

    def visit(node: ast.AST, at_import: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else ()
                whole = ".".join((*base, *filter(None, [child.module])))
                for name in (f"{whole}.{alias.name}" for alias in child.names):
                    root, _, rest = name.partition(".")
                    if root == "glassformer" and rest.split(".")[0] in FOLDERS:
                        folder = rest.split(".")[0]
                        found[folder] = found.get(folder, False) or at_import
            visit(child, at_import and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(path.read_text(encoding="utf-8")), True)
    return found


def all_imports() -> dict[tuple[str, str], bool]:
    """(folder, folder that it imports from) -> whether any of its files does so when it is imported."""
    found: dict[tuple[str, str], bool] = {}
    for path in PACKAGE.rglob("*.py"):
        folder = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for other, at_import in imports_of(path).items():
            if folder in FOLDERS and other != folder:
                found[folder, other] = found.get((folder, other), False) or at_import
    return found


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names, edges = list(FOLDERS), all_imports()
    ink, soft, blue, orange, allowed = "#1f2933", "#7b8794", "#2f6f9f", "#c4622d", "#dceaf5"
    filled: dict[str, Any] = {"marker": "o", "color": blue, "markersize": 8, "zorder": 3}
    hollow = {**filled, "color": orange, "markerfacecolor": "white", "markeredgewidth": 1.8}
    figure, axes = plt.subplots(figsize=(13.2, 6.9), dpi=120)

    def area(x: float, y: float, width: float, height: float, color: str) -> None:
        axes.add_patch(plt.Rectangle((x, y), width, height, color=color, linewidth=0, zorder=1))

    left, end = 16.7, 16.7 + len(names)  # the columns of the matrix
    for row, name in enumerate(names):
        flow, inside = FOLDERS[name]
        area(0, row - 0.5, end + 0.1, 1, "#f5f7fa" if row % 2 == 0 else "white")
        area(left, row - 0.5, row, 1, allowed)
        axes.text(0.3, row, name, fontsize=10.5, va="center", color=ink, fontweight="bold")
        axes.text(3.6, row, flow, fontsize=9.5, va="center", color=blue)
        axes.text(8.1, row, inside, fontsize=9.5, va="center", color=ink)
        axes.plot(left + row + 0.5, row, marker="s", color="#c3ccd6", markersize=9, zorder=2)
        axes.text(left + row + 0.4, -0.7, name, fontsize=9, rotation=55, ha="left", va="bottom", color=ink)
    for (folder, other), at_import in edges.items():
        above = names.index(other) < names.index(folder)
        assert above or not at_import, f"{folder} imports from {other}, which is below it"
        axes.plot(left + names.index(other) + 0.5, names.index(folder), **(filled if above else hollow))
    for x, text in ((0.3, "folder"), (3.6, "what it makes of what"), (8.1, "inside"), (left - 2.6, "imports from")):
        axes.text(x, -0.75, text, fontsize=9, color=soft, va="bottom")
    foot = len(names) - 0.05
    area(0.2, foot - 0.25, 0.5, 0.5, allowed)
    axes.plot(4.05, foot, **filled)
    axes.plot(8.4, foot, **hollow)
    late = "imports from below, inside functions only: nothing is loaded before it is used"
    for x, text in ((0.9, "may import"), (4.45, "imports"), (8.8, late)):
        axes.text(x, foot, text, fontsize=9, va="center", color=ink)
    axes.set_xlim(0, end + 0.9)
    axes.set_ylim(foot + 0.45, -2.7)
    axes.axis("off")
    figure.subplots_adjust(left=0.005, right=0.995, top=0.995, bottom=0.005)
    figure.savefig(PICTURE)
    print(PICTURE)


if __name__ == "__main__":
    main()
