"""A package in use: in place of the module, inside its contract and outside of it."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from package_samples import KERNEL, PYTHON_KERNEL, Import, candidate_of, task_at

from kevin_cli.harness.build.build import BuildRequest, build
from kevin_cli.harness.wire import CONSTRUCTION_SEED
from kevin_cli.package import write as write_module
from kevin_cli.package.write import Finished, write
from kevin_cli.types import DEFAULT_STREAM_ONLY, DeviceKind, Task, TaskReport, Verdict

PREPARE = """
import sys
import torch
import scale
from scale_kevin import Scale, _drop_in

def calls():
    module = sys.modules.get("scale_kevin.kernel")
    return module.ModelNew.calls if module else 0

torch.manual_seed(0)
original = scale.Scale(16, 0.5)
torch.nn.init.normal_(original.weight)
m = Scale(16, 0.5)
m.load_state_dict(original.state_dict())
x = torch.randn(8, 16)
"""


def run_in_fresh_process(folder: Path, home: Path, program: str) -> None:
    """As a user does it: another process, in the folder of the package, with nothing of kevin imported."""
    code = PREPARE + textwrap.dedent(program) + "\nassert not any(name.startswith('kevin_cli') for name in sys.modules)"
    environment = {
        "PATH": "/usr/bin:/bin:" + str(Path(sys.executable).parent),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(home),
    }
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, timeout=240, check=True)


@contextlib.contextmanager
def torch_state_kept() -> Iterator[None]:
    grad, autocast = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    with torch.random.fork_rng():
        yield
    torch.set_grad_enabled(grad)
    torch.set_autocast_enabled("cpu", autocast)


@pytest.fixture
def use(package: Import, task: Task, monkeypatch: pytest.MonkeyPatch, caplog):  # type: ignore[no-untyped-def]
    """Run a program beside a package whose kernel needs no compiler; returns what the package said."""

    def run(program: str, guard: str = "", without: str = "", notes: tuple[str, ...] = ()) -> str:
        monkeypatch.setenv("KEVIN_GUARD", guard)
        monkeypatch.syspath_prepend(Path(task.target.path).parent)
        package(without=without, notes=notes)
        with torch_state_kept():
            exec(PREPARE + textwrap.dedent(program), {})
        return caplog.text

    yield run
    sys.modules.pop("scale", None)


USE_THE_KERNEL = """
m.eval()
with torch.no_grad():
    torch.testing.assert_close(m(x), original(x))
assert calls() == 1
"""


@pytest.mark.parametrize(("current", "num_calls"), [("default", 1), ("another", 0)])
def test_a_kernel_that_is_right_on_the_default_stream_only_runs_on_no_other(  # type: ignore[no-untyped-def]
    use, monkeypatch: pytest.MonkeyPatch, current: str, num_calls: int
) -> None:
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: "default")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
    said = use(USE_THE_KERNEL.replace("== 1", f"== {num_calls}"), notes=(DEFAULT_STREAM_ONLY,))
    assert ("another stream than torch's default one is current" in said) is (num_calls == 0)


def test_any_other_kernel_does_not_ask_for_the_stream(  # type: ignore[no-untyped-def]
    use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: 1 / 0)
    use(USE_THE_KERNEL)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The kernel's library, built as the judge builds it, without a sandbox."""
    folder = tmp_path_factory.mktemp("build")
    built = asyncio.run(build(build_request(task_at(folder / "scale.py"), folder)))
    assert built.status == "built", built.log
    return Finished(directory=built.directory)


def build_request(task: Task, cache: Path, source: str = KERNEL) -> BuildRequest:
    return BuildRequest(
        source=source,
        digest=candidate_of(source).digest,
        python=sys.executable,
        device=DeviceKind.CPU,
        init=task.init,
        init_keywords=task.init_keywords,
        timeout_s=240.0,
        cache=cache,
        contain=lambda argv, **_: list(argv),
        inputs=task.inputs,
        specs=task.contract.inputs,
    )


def versions_here() -> tuple[tuple[str, str], ...]:
    return ("torch", torch.__version__), ("python", platform.python_version())


def test_a_package_with_an_extension_replaces_the_module_without_building_anything(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path, finished: Finished
) -> None:
    write(task, candidate_of(KERNEL), verdict, replace(report, versions=versions_here()), tmp_path, finished)
    run_in_fresh_process(tmp_path, Path(task.target.path).parent, USE_THE_KERNEL)
    assert not (tmp_path / "cache").exists()


def test_an_extension_that_is_loaded_in_the_first_call_is_the_finished_one(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    lazy = "import functools\n" + KERNEL.replace(
        "extension = load_inline(", "extension = functools.cache(lambda: load_inline("
    ).replace('"-O1"])', '"-O1"]))').replace("extension.scale(", "extension().scale(")
    built = asyncio.run(build(build_request(task, tmp_path / "build", lazy)))
    assert built.status == "built", built.log
    evidence = replace(report, versions=versions_here())
    write(task, candidate_of(lazy), verdict, evidence, tmp_path, Finished(directory=built.directory))
    run_in_fresh_process(tmp_path, Path(task.target.path).parent, USE_THE_KERNEL)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_where_the_finished_library_does_not_fit_the_sources_are_built(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path, finished: Finished
) -> None:
    elsewhere = (("torch", "0.1"), ("python", platform.python_version()))
    write(task, candidate_of(KERNEL), verdict, replace(report, versions=elsewhere), tmp_path, finished)
    run_in_fresh_process(tmp_path, Path(task.target.path).parent, USE_THE_KERNEL)
    assert list((tmp_path / "cache").rglob("*.so"))


def test_the_package_constructs_under_the_seed_of_the_judge() -> None:
    runtime = Path(write_module.__file__).parent / "runtime" / "_kernel.py"
    assert f"CONSTRUCTION_SEED = {CONSTRUCTION_SEED}\n" in runtime.read_text()


def test_the_state_dict_keeps_the_names_of_the_original(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    m.eval()
    with torch.no_grad():
        m(x)
    assert list(m.state_dict()) == ["weight"]
    original.load_state_dict(m.state_dict())
    """)


def test_weights_changed_after_a_call_reach_the_kernel(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    m.eval()
    with torch.no_grad():
        m(x)
        m.weight.mul_(3.0)
        assert torch.allclose(m(x), x * m.weight + 0.5)
        m.weight = torch.nn.Parameter(torch.full((16,), 7.0))
        assert torch.allclose(m(x), x * 7.0 + 0.5)
    assert calls() == 3
    """)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("x = torch.randn(4, 16)", "input 0 is torch.float32[4, 16]"),
        ("x = x.double()", "input 0 is torch.float64"),
        ("x = torch.randn(16, 8).t()", "has strides"),
        ("x = torch.randn(8 * 16 + 1)[1:].view(8, 16)", "aligned"),
        ("m.train()", "training mode"),
        ("torch.set_grad_enabled(True)", "gradients are enabled"),
        ("m.offset = 2.0; original.offset = 2.0", "'offset' was set after construction"),
        ("m = m.double(); original = original.double()", "'weight' is torch.float64"),
        ("m = Scale(16, offset=0.25).eval(); original = scale.Scale(16, 0.25)", "other arguments"),
        ("torch.set_autocast_enabled('cpu', True)", "autocast"),
    ],
)
def test_outside_of_the_contract_the_original_runs_and_says_why(use, change: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    said = use(f"""
    m.eval()
    torch.set_grad_enabled(False)
    {change}
    torch.testing.assert_close(m(x), original(x))
    m(x)
    assert calls() == 0
    """)
    assert said.count(reason) == 1


def test_the_same_arguments_by_keyword_are_inside_the_contract(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    m = Scale(width=16, offset=0.5).eval()
    with torch.no_grad():
        m(x=x)
    assert calls() == 1
    """)


def test_gradients_flow_through_the_original(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    m.eval()
    m(x).sum().backward()
    assert torch.allclose(m.weight.grad, x.sum(0))
    """)


def test_strict_raises_outside_of_the_contract(use) -> None:  # type: ignore[no-untyped-def]
    use(
        """
    try:
        m(x)
    except _drop_in.OutsideContract as error:
        assert "training" in str(error)
    else:
        raise AssertionError("did not raise")
    """,
        guard="strict",
    )


def test_log_says_it_every_time(use) -> None:  # type: ignore[no-untyped-def]
    assert use("m(x); m(x)", guard="log").count("training mode") == 2


def test_off_runs_the_kernel_unasked(use) -> None:  # type: ignore[no-untyped-def]
    use("m(x); assert calls() == 1", guard="off")


def test_an_unknown_guard_is_said_once_and_leaves_the_guard_on(use) -> None:  # type: ignore[no-untyped-def]
    said = use(
        """
    again = Scale(16, 0.5)
    m(x); m(x); again(x)
    assert calls() == 0
    """,
        guard="bogus",
    )
    assert said.count("KEVIN_GUARD is 'bogus', which is none of log, strict and off: the guard is on") == 1
    assert "the module is in training mode" in said


GUARDS = {
    "training": """        if module.training is not self._training:
            return f"the module is in {'training' if module.training else 'evaluation'} mode"
""",
    "autocast": """        if torch.is_autocast_enabled(self._device):
            return "autocast is on"
""",
    "construction": """        if self.construction:
            return self.construction
""",
    "shape": """            for index, (tensor, spec) in enumerate(zip(tensors, self._inputs, strict=True)):
                if not spec.fits(tensor):
                    return f"input {index} {spec.reason(tensor)}"
""",
    "tracing": """        if torch.jit.is_tracing():
            return "torch.jit traces the call, and would not see the kernel"
""",
}
"""Parts of the guard, and below a call that each of them alone keeps from the kernel."""


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("training", "m.train()"),
        ("autocast", "torch.set_autocast_enabled('cpu', True)"),
        ("construction", "m = Scale(16, 0.25).eval()"),
        ("shape", "x = x[:4]"),
        ("tracing", "torch.jit.trace(m, x, check_trace=False)"),
    ],
)
def test_without_that_part_of_the_guard_the_kernel_runs_where_it_must_not(use, part: str, change: str) -> None:  # type: ignore[no-untyped-def]
    program = f"""
    m.eval()
    torch.set_grad_enabled(False)
    {change}
    if "trace(" not in {change!r}:
        m(x)
    assert calls() == 1
    """
    use(program, without=GUARDS[part])


def test_a_program_traced_by_torch_jit_is_the_originals(use) -> None:  # type: ignore[no-untyped-def]
    said = use("""
    m.eval()
    torch.set_grad_enabled(False)
    traced = torch.jit.trace(m, x, check_trace=False)
    assert calls() == 0
    torch.testing.assert_close(traced(x + 1), original(x + 1))
    """)
    assert "torch.jit traces the call" in said


def test_what_watches_every_operator_sees_the_kernel_as_one(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    from torch.fx.experimental.proxy_tensor import make_fx
    m.eval()
    with torch.no_grad():
        program = make_fx(m)(x)
        assert any("kevin" in str(node.target) for node in program.graph.nodes), program.code
        torch.testing.assert_close(program(x + 1), original(x + 1))
    """)


@pytest.mark.parametrize("made", ["x.to('meta')", "x.to_sparse()", "x.to_mkldnn()"])
def test_a_tensor_without_plain_memory_is_left_to_the_original(use, made: str) -> None:  # type: ignore[no-untyped-def]
    use(f"""
    m.eval()
    with torch.no_grad():
        try:
            m({made})
        except (RuntimeError, NotImplementedError):
            pass  # the original can't take it
    assert calls() == 0
    """)


def test_a_conjugation_that_is_still_owed_is_seen(package: Import) -> None:
    package()
    spec = sys.modules["scale_kevin._contract"].Spec({"shape": [4], "dtype": "complex64", "strides": [1]}, "cpu")
    assert spec.fits(torch.zeros(4, dtype=torch.complex64))
    owing = torch.zeros(4, dtype=torch.complex64).conj()
    assert not spec.fits(owing)
    assert "conjugated" in spec.reason(owing)


def test_copies_and_pickles_have_kernels_of_their_own(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    import copy, io
    m.eval()
    with torch.no_grad():
        m(x)
        other = copy.deepcopy(m)
        other.weight.fill_(2.0)
        file = io.BytesIO()
        torch.save(m, file)
        file.seek(0)
        again = torch.load(file, weights_only=False)
        assert torch.allclose(other(x), x * 2.0 + 0.5)
        torch.testing.assert_close(m(x), original(x))
        torch.testing.assert_close(again(x), original(x))
    assert calls() == 4
    """)


def test_construction_leaves_the_random_state_as_the_original_does(use) -> None:  # type: ignore[no-untyped-def]
    use("""
    m.eval()
    torch.manual_seed(1); expected = torch.rand(3)
    torch.manual_seed(1)
    with torch.no_grad():
        m(x)
    assert torch.equal(torch.rand(3), expected)
    """)


def test_a_changed_kernel_is_not_run(use) -> None:  # type: ignore[no-untyped-def]
    said = use("""
    import pathlib
    with open(pathlib.Path(_drop_in.__file__).parent / "kernel.py", "a") as file:
        file.write("# changed")
    m.eval()
    with torch.no_grad():
        torch.testing.assert_close(m(x), original(x))
    assert calls() == 0
    """)
    assert "not the program that was verified" in said


def test_siblings_that_the_module_imports_travel_with_it(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    path = Path(task.target.path)
    (path.parent / "constants.py").write_text("from deeper import ONE\n")
    (path.parent / "deeper.py").write_text("ONE = 1\n")
    path.write_text("from constants import ONE\nfrom .deeper import ONE as AGAIN\n" + path.read_text())
    package = write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path)
    code = "import scale_kevin; assert scale_kevin.Scale(16, 0.5)(__import__('torch').ones(8, 16)).sum() == 192"
    subprocess.run([sys.executable, "-c", code], cwd=package.parent, check=True, timeout=120)
