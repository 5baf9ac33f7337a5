"""`glass serve`: models behind HTTP."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from dataclasses import fields
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..arguments import Dtype
from ..output.terminal import print_json

NEEDED = ("starlette", "uvicorn", "msgspec", "prometheus_client")


def serve(
    models: Positional[Annotated[tuple[str, ...], arg(metavar="MODEL")]],
    /,
    *,
    task: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="TASK")]] = (),
    host: str = "127.0.0.1",
    port: Annotated[int, arg(metavar="N")] = 8080,
    api_key: Annotated[str, arg(metavar="KEY")] = "",
    max_queue: Annotated[int, arg(metavar="N")] = 512,
    max_batch_tokens: Annotated[int, arg(metavar="N")] = 2048,
    max_body_bytes: Annotated[int, arg(metavar="N")] = 2_000_000,
    request_seconds: Annotated[float, arg(metavar="S")] = 30.0,
    drain_seconds: Annotated[float, arg(metavar="S")] = 30.0,
    dtype: Dtype = "float32",
    device: Annotated[str | None, arg(metavar="DEVICE")] = None,
    explore: bool = False,
    quiet: bool = False,
    json: bool = False,
) -> int:
    """Serve models over HTTP: OpenAI's routes, those of text-embeddings-inference, and every task.

    Requests that wait run together, and each gets the answer that it gets alone. http://HOST:PORT/docs lists all
    routes. One line of JSON for each request is printed. Ctrl-C or SIGTERM ends it when accepted requests are
    answered. Needs: pip install 'glassformer[serve]'

    examples:
      glass serve ./all-MiniLM-L6-v2
      glass serve minilm=./all-MiniLM-L6-v2 ./sst2 ./gpt2 --port 8000 --api-key SECRET
      glass serve ./bert-base-uncased --task fill-mask --host 0.0.0.0

    Args:
        models: Checkpoint folders or names on the hub, each as NAME=FOLDER or with the folder's name. The first one
            answers requests that name none.
        task: What a model does, if it is not what its files say; once for all models, or once for each in order.
        host: The address to listen on; 0.0.0.0 for all of this machine.
        port: The port; 0 for any free one.
        api_key: Requests must carry it as "Authorization: Bearer KEY"; GLASS_API_KEY is read if it is not given.
        max_queue: How many inputs wait or run at once; requests beyond get 429.
        max_batch_tokens: How many tokens go through a model at once.
        max_body_bytes: The size of a request's body; larger ones get 413.
        request_seconds: In which a request must arrive, and each part of its response be read.
        drain_seconds: For accepted requests after SIGTERM or Ctrl-C.
        dtype: What products are computed in. bfloat16 and int8 are faster on processors that support them.
        device: Where to compute, such as cpu or cuda.
        explore: Mount the explorer of the first model at /explore/.
        quiet: Do not print a line for each request.
        json: Print the address as JSON.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"glass serve needs {', '.join(missing)}: pip install 'glassformer[serve]'")
    if not models:
        raise InputError("name at least one model: glass serve FOLDER")
    if not 0 <= port < 65536:
        raise InputError(f"--port must be between 0 and 65535, got {port}")
    if len(task) not in (0, 1, len(models)):
        raise InputError(f"--task is given once, or once for each of the {len(models)} models, got {len(task)}")
    from ...serve.service.metrics import Metrics
    from ...serve.service.served_model import load_models, model_names
    from ...serve.service.server import listen, run
    from ...serve.service.service import LOOPBACK, Service
    from ...serve.service.settings import ServiceSettings

    given = locals() | {"api_key": api_key or os.environ.get("GLASS_API_KEY", "")}
    settings = ServiceSettings(**{f.name: given[f.name] for f in fields(ServiceSettings) if f.name in given})
    names = model_names(models)
    listening = listen(host, port)
    metrics = Metrics(None if quiet else sys.stdout)
    served = load_models(names, task, metrics, settings, None if dtype == "float32" else dtype, device)
    routes: list = []
    if explore:
        from ...serve.service.explorer_mount import explorer_routes

        routes = explorer_routes(next(iter(names.values())))
    service = Service(served, settings, metrics, only_local=host in LOOPBACK, extra_routes=routes)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    if json:
        print_json({"address": address, "models": list(served)}, indent=None)
    else:
        print(f"{address} serves {', '.join(served)}; {address}docs lists the routes; Ctrl-C ends it")
    sys.stdout.flush()
    if host not in LOOPBACK and not settings.api_key:
        logging.getLogger("glassformer").warning("anyone who reaches %s can use it: --api-key asks for a key", address)
    if not run(service, listening):
        print("glass: work was still running, and was cut off", file=sys.stderr, flush=True)
        os._exit(1)  # an orderly end would stop its thread inside of torch, which aborts
    return 0
