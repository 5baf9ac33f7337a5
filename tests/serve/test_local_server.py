"""The local server: allowed hosts, served files, and how invalid requests are refused."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from glassformer.serve.explorer import PAGE
from glassformer.serve.local_server import MAX_REQUEST_BYTES, LocalServer, files_of


def send(address: str, method: str, path: str, body: bytes | str | None = None, **headers: str):
    """(status, headers, body)"""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def post(address: str, name: str, value: object, **headers: str):
    return send(address, "POST", f"/api/{name}", json.dumps(value), **{"Content_Type": "application/json", **headers})


def test_the_page_and_its_policy(explorer):
    _, address = explorer
    code, headers, body = send(address, "GET", "/")
    assert code == 200
    assert b"explorer.js" in body
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/explorer.js", "/head_view.js", "/style.css", "/explorer.css"])
def test_every_module_is_served(explorer, path):
    code, headers, _ = send(explorer[1], "GET", path)
    assert code == 200
    assert headers["Content-Type"].startswith("text/")


@pytest.mark.parametrize(
    "path",
    "/../local.py /..%2flocal.py /%2e%2e/%2e%2e/errors.py //etc/passwd /page/../../errors.py /x.js /. /index.html/.. "
    "/api/read /explorer.py".split(),
)
def test_no_other_file_is_served(explorer, path):
    assert send(explorer[1], "GET", path)[0] == 404


def test_other_hosts_and_origins_are_refused(explorer):
    address = explorer[1]
    own = urlsplit(address).netloc
    assert send(address, "GET", "/", Host="evil.example")[0] == 403
    assert send(address, "GET", "/", Host=f"evil.example:{own.split(':')[1]}")[0] == 403
    assert post(address, "model", {}, Origin="http://evil.example")[0] == 403
    assert post(address, "model", {}, Origin="null")[0] == 403
    assert post(address, "model", {}, Origin=f"http://{own}")[0] == 200
    assert post(address, "model", {}, Host=f"localhost:{own.split(':')[1]}")[0] == 200


def test_it_listens_on_the_loopback_address_only(explorer):
    assert urlsplit(explorer[1]).hostname == "127.0.0.1"


def test_invalid_requests_are_refused(explorer):
    address = explorer[1]
    as_json = {"Content_Type": "application/json"}
    assert send(address, "POST", "/api/model", "{}", Content_Type="text/plain")[0] == 415
    for body in ("{", "[]", "\xff", "[" * 100_000, '{"text": 1}'):
        code, _, message = send(address, "POST", "/api/read", body.encode("latin1"), **as_json)
        assert (code, "error" in json.loads(message)) == (400, True), body[:20]
    assert send(address, "POST", "/api/nothing", "{}", **as_json)[0] == 404
    assert send(address, "PUT", "/", "x")[0] == 405
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length=str(MAX_REQUEST_BYTES + 1))[0] == 413
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length="-1")[0] == 413
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length="x")[0] == 411


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("head", {"reading": 1, "layer": 99, "head": 0}, "layers 0 to 2"),
        ("head", {"reading": 1, "layer": 0, "head": 99}, "heads 0 to 3"),
        ("head", {"reading": 99, "layer": 0, "head": 0}, "read it again"),
        ("head", {"reading": True, "layer": 0, "head": 0}, "whole number"),
        ("predict", {"reading": 1, "position": 999}, "positions 0 to"),
        ("predict", {"reading": 1, "temperature": 0}, "temperature must be"),
        ("predict", {"reading": 1, "temperature": float("nan")}, "temperature must be"),
        ("attribute", {"reading": 1, "method": "salience"}, "did you mean 'saliency'"),
        ("change", {"reading": 1, "heads": {"0": [1]}}, "factors of heads"),
        ("change", {"reading": 1, "skip": [7]}, "layers 0 to 2"),
        ("change", {"reading": 1, "source": "so good", "layer": 0}, "name the places"),
        ("tokens", {"text": "so " * 50_000}, "at most 100000 characters"),
        ("read", {"text": "so " * 500}, "has 502 tokens, and this model reads at most 64"),
        ("read", {"text": "so", "model": 7}, "model must be between"),
        ("generate", {"text": "so"}, "cannot generate text"),
        ("lens", {"reading": 1, "positions": ["x"]}, "list of"),
    ],
)
def test_invalid_values_are_reported(explorer, name, fields, message):
    if fields.get("reading") is not True and fields.get("reading") == 1:
        fields = {**fields, "reading": json.loads(post(explorer[1], "read", {"text": "the cat sat"})[2])["reading"]}
    code, _, body = post(explorer[1], name, fields)
    assert code == 400
    assert message in json.loads(body)["error"]


def test_malformed_http_gets_no_500(explorer):
    place = urlsplit(explorer[1])
    for request in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
            connection.sendall(request)
            response = connection.recv(200)
        code = response.split()[1] if response.startswith(b"HTTP/") else b"400"  # no version, no status line
        assert code.startswith(b"4") or code == b"505", response


def test_too_many_connections_are_refused_and_the_server_recovers():
    server = LocalServer(files_of(PAGE), {})
    server.connections = threading.BoundedSemaphore(3)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    place = urlsplit(server.address)
    idle = [socket.create_connection((place.hostname, place.port)) for _ in range(3)]
    while server.connections._value:  # until all three are accepted
        time.sleep(0.01)
    try:
        with socket.create_connection((place.hostname, place.port), timeout=10) as one_more:
            one_more.sendall(b"GET / HTTP/1.1\r\nHost: " + place.netloc.encode() + b"\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):  # or the end of the connection, without a response
                assert one_more.recv(100) == b""
        for connection in idle:
            connection.close()
        for _ in range(200):
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                if send(server.address, "GET", "/")[0] == 200:
                    return
            time.sleep(0.02)
        pytest.fail("the server did not recover")
    finally:
        server.shutdown()
        server.server_close()


def test_numbers_that_are_not_finite_are_reported():
    """The connection does not end without a response."""
    server = LocalServer({}, {"/api/nan": lambda request: {"value": float("nan")}})
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        code, _, body = post(server.address, "nan", {})
        assert (code, "not finite" in body.decode()) == (400, True)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(os.name == "nt", reason="Windows would let two servers share a port")
def test_a_port_can_be_reused_at_once():
    """Restarting the explorer on the same port need not wait for a timeout."""
    server = LocalServer(files_of(PAGE), {})
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as waiting:
        waiting.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        while waiting.recv(65536):  # the server ends the connection
            pass
    server.shutdown()
    server.server_close()
    LocalServer({}, {}, port).server_close()


@pytest.mark.parametrize(
    "headers", ["Content-Type: text/plain\r\nContent-Length: 18", "Content-Type: application/json"]
)
def test_an_unread_body_is_not_parsed_as_another_request(explorer, headers):
    host = urlsplit(explorer[1]).netloc
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1])), timeout=20) as line:
        line.sendall(f"POST /api/model HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode())
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while more := line.recv(65536):
                received += more
    assert received.count(b"HTTP/1.1 ") == 1
