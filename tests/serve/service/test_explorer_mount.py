"""The explorer inside of the service."""

from __future__ import annotations

import pytest

from glassformer.serve.service.explorer_mount import explorer_routes
from glassformer.serve.service.service import Service

from .conftest import running


@pytest.fixture(scope="module")
def explored(folders):
    with pytest.MonkeyPatch.context() as patch:
        original, routes = Service.__init__, explorer_routes(folders["gpt2"])
        patch.setattr(Service, "__init__", lambda *a, **b: original(*a, **{**b, "extra_routes": routes}))
        with running({"gpt2": folders["gpt2"]}) as found:
            yield found


def test_the_page_and_its_requests(explored):
    page = explored.client.get("/explore", follow_redirects=True)
    assert page.status_code == 200 and 'src="explorer.js"' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert explored.client.get("/explore/explorer.js").status_code == 200
    found = explored.post("/explore/api/read", {"text": "Once upon"})
    assert found["tokens"]
    assert explored.refused("/explore/api/read", {"text": 3})[0] == 422
    assert explored.refused("/explore/api/nothing", {})[0] == 404
    assert explored.client.get("/explore/../service.py").status_code == 404
    assert explored.client.get("/explore/%2e%2e/explorer.py").status_code == 404


def test_it_is_there_only_if_requested(service):
    assert service.client.get("/explore/").status_code == 404
