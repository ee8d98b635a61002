"""Behaves like vLLM while it starts: says how far it is, answers /health late, has a child, or dies."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import time

port, way = int(sys.argv[1]), sys.argv[2]
child = subprocess.Popen(["sleep", "600"])
print(f"child {child.pid}", flush=True)
print("INFO Starting vLLM server on http://127.0.0.1", flush=True)
if way == "dies":
    print("Traceback (most recent call last):\nValueError: No available memory for the cache blocks.", flush=True)
    print("RuntimeError: Engine core initialization failed. See root cause above.", flush=True)
    child.kill()
    sys.exit(1)
for done in (25, 50, 100):
    print(f"\rLoading safetensors checkpoint shards:  {done}% Completed | {done // 25}/4", end="", flush=True)
    time.sleep(0.6)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


if way == "stubborn":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
os._exit(0)
