"""The service of `glass serve` on Ray Serve: replicas of one application, as many as its load needs."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..serve.service.settings import ServiceSettings

NEEDED = ("ray", "fastapi", "starlette", "msgspec", "prometheus_client")
AUTOSCALING = {"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 32}


def application(
    *models: str,
    task: Sequence[str] = (),
    settings: ServiceSettings | None = None,
    dtype: str = "float32",
    device: str | None = None,
    **deployment: Any,
) -> Any:
    """The application that `ray.serve.run` starts; `models` and `task` are those of `glass serve`.

    Further keywords are those of `ray.serve.deployment`, such as `autoscaling_config` and `ray_actor_options`. Every
    replica loads the models for itself. Its queue is that of `settings`; a request beyond it gets 429, wherever it came
    in.

    >>> from ray import serve                                                               # doctest: +SKIP
    >>> serve.run(application("./sst2", ray_actor_options={"num_cpus": 2}))                 # doctest: +SKIP
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"Ray Serve needs {', '.join(missing)}: pip install 'glassformer[ray,serve]'")
    if not models:
        raise InputError("name at least one model: application('./sst2')")
    from ray import serve

    limits = settings or ServiceSettings()

    def build() -> Any:
        """The service of one replica, made in its process."""
        from glassformer.serve.service.metrics import Metrics
        from glassformer.serve.service.served_model import load_models, model_names
        from glassformer.serve.service.service import Service

        metrics = Metrics(None)
        number_format = None if dtype == "float32" else dtype
        served = load_models(model_names(models), task, metrics, limits, number_format, device)
        return Service(served, limits, metrics, only_local=False)

    more = {"name": "glassformer", "max_ongoing_requests": limits.max_queue, **deployment}
    if "num_replicas" not in more:
        more.setdefault("autoscaling_config", AUTOSCALING)
    return serve.deployment(serve.ingress(build)(), **more).bind()
