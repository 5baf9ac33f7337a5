"""Write glassformer/__init__.pyi, the public names for type checkers, from those of __init__.py.

python scripts/write_stub.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import glassformer

HEAD = '"""What type checkers see: every public name, imported as it is. Made by scripts/write_stub.py."""\n\n'


def main() -> None:
    stub = Path(glassformer.__file__).with_suffix(".pyi")
    homes = sorted((module, name) for name, module in glassformer._HOME_OF.items())
    lines = [f"from .{module} import {name} as {name}" for module, name in homes]
    stub.write_text(HEAD + "\n".join(lines) + "\n\n__version__: str\n__all__: list[str]\n", encoding="utf-8")
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(stub)], check=True)


if __name__ == "__main__":
    main()
