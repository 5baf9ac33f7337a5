"""A small hub on 127.0.0.1 that answers what the huggingface_hub client asks, and can be told to fail.

GET  /api/models/{repo}                       sha and the list of files of the main branch
GET  /api/models/{repo}/revision/{revision}   the same of another revision
HEAD /{repo}/resolve/{commit}/{file}          ETag, X-Repo-Commit, Content-Length
GET  /{repo}/resolve/{commit}/{file}          the bytes

A data set is a repository named datasets/{repo}; its description stands under /api/datasets/{repo}.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Request:
    method: str
    path: str
    token: str | None


@dataclass
class HubServer:
    """Use as a context manager; `repos` maps a repository to {revision: {file: bytes}}."""

    repos: dict[str, dict[str, dict[str, bytes]]]
    needs_token: str | None = None
    fail_with: int | None = None  # every answer has this status
    stall: float = 0  # seconds before any answer
    cut: dict[str, int] = field(default_factory=dict)  # file -> how many more times to close half way
    stall_half_way: dict[str, float] = field(default_factory=dict)  # file -> seconds of silence after half of it
    page: bytes | None = None  # a web page that is no hub
    other_commit: str | None = None  # sent with the files, in place of the one that was announced
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> HubServer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def fetched(self) -> list[str]:
        """The names of the files that were sent, in order."""
        return [r.path.rsplit("/", 1)[1] for r in self.requests if r.method == "GET" and "/resolve/" in r.path]

    def commit(self, repo: str, revision: str) -> str | None:
        if len(revision) == 40:
            return revision
        if revision not in self.repos.get(repo, {}):
            return None
        content = sorted((file, hashlib.sha1(data).hexdigest()) for file, data in self.repos[repo][revision].items())
        return hashlib.sha1(repr((repo, content)).encode()).hexdigest()

    def files(self, repo: str, revision: str) -> dict[str, bytes]:
        for name, files in self.repos[repo].items():
            if revision in (name, self.commit(repo, name)):
                return files
        return {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_) -> None:
                pass

            def do_HEAD(self) -> None:
                self.respond(body=False)

            def do_GET(self) -> None:
                self.respond(body=True)

            def send(self, status: int, data: bytes = b"", body: bool = True, **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if body:
                    self.wfile.write(data)

            def respond(self, body: bool) -> None:
                path = unquote(urlsplit(self.path).path).strip("/")
                hub.requests.append(Request(self.command, path, self.headers.get("Authorization")))
                time.sleep(hub.stall)
                if hub.page is not None:
                    return self.send(200, hub.page, body)
                if hub.fail_with is not None:
                    return self.send(hub.fail_with, b"failed", body)
                if hub.needs_token and self.headers.get("Authorization") != f"Bearer {hub.needs_token}":
                    return self.send(401, b"no", body)
                if path.startswith("api/datasets/"):
                    return self.describe(path.removeprefix("api/"), body)
                if path.startswith("api/models/"):
                    return self.describe(path.removeprefix("api/models/"), body)
                repo, _, rest = path.partition("/resolve/")
                commit, _, file = rest.partition("/")
                if repo not in hub.repos:
                    return self.send(404, b"", body, X_Error_Code="RepoNotFound")
                data = hub.files(repo, commit).get(file)
                if data is None:
                    return self.send(404, b"", body, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
                return self.deliver(file, data, commit, body)

            def describe(self, path: str, body: bool) -> None:
                repo, _, revision = path.partition("/revision/")
                if repo not in hub.repos:
                    return self.send(404, b"{}", body, X_Error_Code="RepoNotFound")
                commit = hub.commit(repo, revision or "main")
                if commit is None:
                    return self.send(404, b"{}", body, X_Error_Code="RevisionNotFound")
                files = [{"rfilename": file} for file in hub.files(repo, commit)]
                answer = json.dumps({"id": repo, "sha": commit, "siblings": files}).encode()
                return self.send(200, answer, body, Content_Type="application/json")

            def deliver(self, file: str, data: bytes, commit: str, body: bool) -> None:
                about = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X_Repo_Commit": hub.other_commit or commit}
                if body and (hub.cut.get(file) or file in hub.stall_half_way):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data[: len(data) // 2])
                    self.wfile.flush()
                    time.sleep(hub.stall_half_way.get(file, 0))
                    hub.cut[file] = hub.cut.get(file, 0) - 1
                    self.close_connection = True
                    return
                self.send(200, data, body, **about)

        return Handler
