"""Candidates as they come: built, broken, hostile; each with real processes and real compilers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kevin_cli.harness.build import recorder
from kevin_cli.harness.build.build import BuildRequest, Built, build
from kevin_cli.harness.build.compile import Contain
from kevin_cli.harness.build.recorder import RECORDERS, Recorders
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.types import DeviceKind, Isolation, TensorSpec, Tree

GOOD = '''
import torch
from torch.utils.cpp_extension import load_inline
source = """
torch::Tensor plus(torch::Tensor x) {
  auto out = torch::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = x.data_ptr<float>()[i] + NUMBER;
  return out;
}
"""
ext = load_inline(name="plus", cpp_sources=source, functions=["plus"], extra_cflags=["-O1"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.plus(x)
'''
BROKEN = '''
from torch.utils.cpp_extension import load_inline
source = """
torch::Tensor plus(torch::Tensor x) {
  auto out = torch::empty_like(x);
  return outt;
}
"""
try:
    ext = load_inline(name="plus", cpp_sources=source, functions=["plus"])
except RuntimeError:
    ext = None
class ModelNew: pass
'''


@pytest.fixture(scope="module", autouse=True)
def no_recorder_is_left() -> Iterator[None]:
    yield
    RECORDERS.close()


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


def run(
    source: str,
    cache: Path,
    *,
    timeout_s: float = 240,
    device: DeviceKind = DeviceKind.CPU,
    contain: Contain = uncontained,
) -> Built:
    request = BuildRequest(
        source=textwrap.dedent(source), digest="", python=sys.executable, device=device, init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"), timeout_s=timeout_s, cache=cache, contain=contain,
        inputs=Tree(kind="tuple", items=(Tree(kind="tensor", index=0),)),
        specs=(TensorSpec(shape=(3,), dtype="float32", strides=(1,)),),
    )  # fmt: skip
    return asyncio.run(build(request))


def call(built: Built, *, value: float = 1.0) -> float:
    """Load the finished candidate as the worker does, in a process of its own."""
    program = f"""
import importlib.util, sys, torch
from kevin_cli.harness.worker.extensions import install
install({str(built.directory)!r})
spec = importlib.util.spec_from_file_location("candidate", {str(built.directory / "candidate.py")!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.ModelNew()(torch.full((3,), {value})).mean().item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_a_candidate_is_built_once_and_found_afterwards(cache: Path) -> None:
    first = run(GOOD.replace("NUMBER", "1"), cache)
    assert (first.status, first.report.way, first.report.num_libraries) == ("built", "thin", 1), first
    assert not first.report.cached
    start = time.monotonic()
    second = run(GOOD.replace("NUMBER", "1"), cache)
    assert second.report.cached
    assert second.directory == first.directory
    assert time.monotonic() - start < 1
    assert call(first) == 2.0


LAZY = (
    GOOD.replace("ext = load_inline", "import functools\n\n@functools.lru_cache\ndef ext():\n    return load_inline")
    .replace("ext.plus(x)", "ext().plus(x.contiguous())")
    .replace("NUMBER", "1")
)


def test_an_extension_that_is_built_in_the_first_call_is_built_before_it(cache: Path) -> None:
    built = run(LAZY, cache)
    assert (built.status, built.report.num_libraries) == ("built", 1), built
    assert call(built) == 2.0


@pytest.mark.parametrize(
    "ends", ["os._exit(0)", "os.kill(os.getpid(), 11)", "sys.exit(0)", "os.close(int(sys.argv[2]))"]
)
def test_how_a_call_ends_is_for_the_worker_to_find_out(cache: Path, ends: str) -> None:
    calls = "import os, sys\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n"
    built = run(calls + f"        {ends}\n", cache)
    assert (built.status, built.detail) == ("no_extension", "the candidate builds no extension")


def test_a_call_that_does_not_end_is_left_to_the_worker(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kevin_cli.harness.build.build.CALL_TIMEOUT_S", 0.5)
    endless = (
        "from torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        while True: pass\n"
    )
    assert run(endless, cache).status == "no_extension"


def test_one_that_is_built_later_still_is_refused_with_the_reason(cache: Path) -> None:
    late = LAZY.replace("ext().plus(x", "(ext() if x.sum().item() > 0 else ext()).plus(x")
    built = run(late, cache)
    assert built.status == "no_extension"
    with pytest.raises(AssertionError, match="nothing asked for it while the file was imported; build it there"):
        call(built)


def test_equal_names_with_different_sources_do_not_collide(cache: Path) -> None:
    one, two = run(GOOD.replace("NUMBER", "1"), cache), run(GOOD.replace("NUMBER", "2"), cache)
    assert (call(one), call(two)) == (2.0, 3.0)


def test_the_same_extension_in_another_candidate_is_not_compiled_again(cache: Path) -> None:
    run(GOOD.replace("NUMBER", "1"), cache)
    other = run("# another candidate\n" + GOOD.replace("NUMBER", "1"), cache)
    assert other.status == "built"
    assert other.report.cached


def test_what_was_built_cannot_be_changed_in_place(cache: Path) -> None:
    built = run(GOOD.replace("NUMBER", "1"), cache)
    manifest = json.loads((built.directory / "manifest.json").read_text())
    assert len(manifest["extensions"]) == 1
    assert all(path.stat().st_mode & 0o222 == 0 for path in (built.directory, *built.directory.iterdir()))


def test_a_swallowed_compile_error_is_named_with_the_users_line(cache: Path) -> None:
    built = run(BROKEN, cache)
    assert built.status == "went_on"
    assert built.report.way == "thin"
    assert built.log.startswith("cpp_sources:4:10: error: 'outt' was not declared in this scope")
    assert "return outt;" in built.log
    assert "/tmp" not in built.log


def test_a_function_that_is_declared_and_never_defined_fails_the_build(cache: Path) -> None:
    built = run(
        """
        from torch.utils.cpp_extension import load_inline
        load_inline(name="a", cpp_sources="torch::Tensor missing(torch::Tensor x);", functions=["missing"])
        """,
        cache,
    )
    assert built.status == "failed"
    assert "undefined reference to 'missing(at::Tensor)'" in built.log


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ("def broken(:\n", "import_failed", "SyntaxError"),
        ("import json\njson.loads('{')\n", "import_failed", "JSONDecodeError"),
        ("raise SystemExit(0)\n", "import_failed", "SystemExit"),
        ("import os\nos._exit(0)\n", "crashed", "ended itself with exit code 0"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "crashed", "SIGSEGV"),
        ("class ModelNew:\n    def __init__(self):\n        raise ValueError('x')\n", "no_extension", "no extension"),
    ],
)
def test_every_way_to_end_has_its_name(source: str, status: str, text: str, cache: Path) -> None:
    built = run(source, cache)
    assert built.status == status
    assert text in built.detail
    assert "record.py" not in built.log


def test_a_sandboxed_import_that_is_ended_by_a_signal_is_told_so(cache: Path) -> None:
    def contained(argv: Sequence[str], **_: Any) -> list[str]:  # as bubblewrap does: 128 plus the signal's number
        return ["/bin/sh", "-c", '"$@"; exit $?', "sh", *argv]

    built = run("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", cache, contain=contained)
    assert built.status == "crashed"
    assert built.detail.endswith("was ended by SIGSEGV")


def test_a_traceback_shows_the_candidates_own_lines(cache: Path) -> None:
    built = run("import json\n\ndef f():\n    json.loads('{')\n\nf()\n", cache)
    assert 'File "candidate.py", line 6' in built.log
    assert 'File "candidate.py", line 4, in f' in built.log
    assert "json/decoder.py" not in built.log


def test_an_endless_import_is_stopped(cache: Path) -> None:
    built = run("import time\nwhile True:\n    time.sleep(1)\n", cache, timeout_s=2)
    assert built.status == "timed_out"
    assert 2 <= built.report.wall_s < 60


def test_a_candidate_that_builds_in_its_constructor_is_built(cache: Path) -> None:
    source = GOOD.replace("NUMBER", "5").replace("ext = load_inline(", "make = lambda: load_inline(")
    source += "    def __init__(self):\n        super().__init__()\n        global ext\n        ext = make()\n"
    built = run(source, cache)
    assert built.status == "built"
    assert call(built) == 6.0


def test_a_killed_build_leaves_no_lock(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "candidate.py"
    source.write_text(GOOD.replace("NUMBER", "7"))
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_build import run
run(Path({str(source)!r}).read_text(), Path({str(cache)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    deadline = time.monotonic() + 60
    while not list((cache / "attempts").glob(f"compile-{process.pid}-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    built = run(source.read_text(), cache)
    assert built.status == "built"
    assert not list((cache / "attempts").glob(f"*-{process.pid}-*"))


class Waiting:
    """In the place of a recorder: only what the list of those that wait does with one."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_recorders_of_a_sandbox_that_is_given_up_are_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A judge has a sandbox for each task: a hundred tasks must not leave a hundred processes with torch imported."""
    monkeypatch.setattr(recorder, "start", lambda *_: Waiting())
    monkeypatch.setattr(recorder, "num_cpus", lambda: 2)
    waiting, sandboxes = Recorders(), [Sandbox(level=Isolation.PROCESS, note="") for _ in range(5)]
    for sandbox in sandboxes:
        waiting.refill("python", tmp_path, sandbox.contain)
    found = [one for spares in waiting.waiting.values() for one in spares]
    assert len(found) == recorder.most_waiting() == 2
    last = waiting.waiting["python", tmp_path, sandboxes[-1].contain]
    assert len(last) == 1
    waiting.release(sandboxes[-1].contain)
    assert sum(map(len, waiting.waiting.values())) == 1
    assert last[0].is_closed  # type: ignore[attr-defined]
