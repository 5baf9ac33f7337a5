"""`glass explore`: serves a page on this machine that shows what happens inside a model."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

from tyro.conf import Positional, arg

from ...errors import InputError
from ..output.terminal import print_json

DEFAULT_TEXT = "The cat sat on the mat because it was tired."


def explore(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    text: Positional[Annotated[str | None, arg(metavar="TEXT|PICTURE")]] = None,
    /,
    *,
    pair: Annotated[str, arg(metavar="TEXT")] = "",
    compare: Annotated[str, arg(metavar="MODEL")] = "",
    port: Annotated[int, arg(metavar="N")] = 0,
    browser: bool = False,
    json: bool = False,
) -> int:
    """Open a page that shows what happens inside a model on any text.

    Every head as a picture, lines and heat-maps with exact values, queries and keys, predictions, the logit lens, heads
    and layers switched off, attribution, generation step by step, weights. Of a model of pictures, the attention of
    each head and of all layers together is drawn over a picture. It listens on this machine only and needs no network.
    Ctrl-C ends it.

    examples:
      glass explore ./bert-base-uncased
      glass explore ./gpt2 "Once upon a time" --browser
      glass explore ./vit cat.png
      glass explore ./my-model --compare ./bert-base-uncased --port 8765

    Args:
        model: A checkpoint folder or a name on the hub.
        text: The first text; for a model of pictures, the file of the first one.
        pair: Its second text, for models that read pairs.
        compare: A second model, to compare with.
        port: The port; any free one if not given.
        browser: Open the page in the browser.
        json: Print the address as JSON.
    """
    if not 0 <= port < 65536:
        raise InputError(f"--port must be between 0 and 65535, got {port}")
    from ...serve.picture_explorer import open_explorer

    explorer = open_explorer([name for name in (model, compare) if name], text, pair, DEFAULT_TEXT)
    try:
        server = explorer.serve(port)
    except OSError as error:
        raise InputError(f"port {port} cannot be used: {error.strerror or error}") from None
    address = server.address
    print_json({"address": address}, indent=None) if json else print(f"{address} shows {model}; Ctrl-C ends it")
    sys.stdout.flush()
    if browser:
        webbrowser.open(address)
    if not server.serve_until_signal():
        print("glass: a request was still running, and was cut off", file=sys.stderr, flush=True)
        os._exit(1)  # an orderly end would stop its thread inside of torch, which aborts
    return 0
