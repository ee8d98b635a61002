"""Fixtures around the server that misbehaves on request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from fake_server import FakeServer, Reply, chat, handler, model_list, piece, sse


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer(models=[model_list("tiny")])
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler(fake))
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    fake.listening = listening
    fake.url = f"http://127.0.0.1:{listening.server_port}/v1"
    yield fake
    fake.closing.set()
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def chat_reply() -> Callable[..., Reply]:
    return chat


@pytest.fixture
def models_reply() -> Callable[..., Reply]:
    return model_list


@pytest.fixture
def reply() -> type[Reply]:
    return Reply


@pytest.fixture
def sse_reply() -> Callable[..., Reply]:
    return sse


@pytest.fixture
def a_piece() -> Callable[..., dict[str, Any]]:
    return piece
