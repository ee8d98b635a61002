"""The real `kevin` command in a process of its own, in an empty folder, with a cache shared by the folder."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cli_samples import KEVIN, Kevin, environment


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def kevin(tmp_path: Path, cache: Path) -> Kevin:
    def run(*arguments: str | Path, timeout_s: float = 120, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(KEVIN), *map(str, arguments)],
            cwd=tmp_path,
            env=environment(tmp_path, {"KEVIN_CACHE": str(cache), **extra}),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run


@pytest.fixture
def serve() -> Iterator[Callable[[int, bytes, float], str]]:
    """A server that gives one answer to everything, after a delay; returns its URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(status: int, body: bytes, delay_s: float) -> str:
        stop = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stop.wait(delay_s)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.stop = stop  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/v1"

    yield start
    for server in servers:
        server.stop.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
