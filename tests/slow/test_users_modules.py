"""From a user's module to its use: TARGET, a kernel by the embedded proposer, the judge, a package, a fresh process.

The package is installed by pip into a clean virtual environment. There, where nothing of kevin can be imported, it
stands in for the module: called as it is, under `torch.compile(fullgraph=True)`, and with shapes outside of the
contract; and it leaves nothing when it is uninstalled. Nothing here depends on how fast a kernel
is: it is packed when the judge finds it right. Five modules are in the default run, all twenty in `make slow`, and five
take the same road on a GPU in `make gpu`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kevin_cli.harness.build.build import driver_capability
from kevin_cli.harness.examine import build_candidate
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.package.write import Finished, write
from kevin_cli.policies.embedded.policy import EmbeddedPolicy
from kevin_cli.refine.extract import extract
from kevin_cli.tasks import lower, parse_target
from kevin_cli.tasks.target import Given
from kevin_cli.types import Candidate, DeviceKind, Limits, Style, Task, Trajectory

sys.path.append(str(Path(__file__).parent))
import clean_environment
from users_road import MODULES, ON_GPU, PATIENCE, QUICK, USE, USERS, User

LIMITS = Limits(max_tokens=100_000, temperature=0.0, timeout_s=60.0 * PATIENCE, seed=0)
KEVIN = Path(sys.executable).with_name("kevin")
BY_NAME = {user.name: user for user in MODULES}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("clean") / "venv"
    clean_environment.make(home)
    return home


async def packed(user: User, out: Path, cache: Path, device: DeviceKind) -> tuple[Task, Path]:
    """The package of the embedded proposer's first kernel, judged against the user's module."""
    target = parse_target(f"{USERS}/{user.target}", None, Given(recipes=user.options[1::2]))
    settings = JudgeSettings(
        device=device,
        cache=cache,
        build_timeout_s=180.0 * PATIENCE,
        call_timeout_s=30.0 * PATIENCE,
        compiled_baseline=False,
        timing_budget_s=0.5,
    )
    style = Style.GENERAL if device is DeviceKind.CUDA else Style.GENERAL_CPU
    async with LocalJudge(settings) as judge:
        task = lower(target, await judge.describe(target))
        candidate = extract(await EmbeddedPolicy().propose(Trajectory(task=task, index=0), LIMITS), style)
        assert isinstance(candidate, Candidate), candidate
        verdict = await judge.judge(task, candidate)
        assert verdict.is_correct, f"{verdict.detail}\n{verdict.log}\n{candidate.source}"
        assert not verdict.weak_check, verdict.weak_check
        report = await judge.open_task(task)
    built = await build_candidate(task, candidate, sandbox=Sandbox.find(), cache=cache, timeout_s=60.0 * PATIENCE)
    capability = driver_capability() if device is DeviceKind.CUDA else None
    finished = Finished(directory=built.directory, capability=".".join(map(str, capability or ())))
    return task, write(task, candidate, verdict, report, out, finished)


def use(user: User, task: Task, package: Path, python: Path, home: Path) -> None:
    """As `USE` has it, with a build cache of its own."""
    stem = user.target.partition(":")[0].removesuffix(".py").replace("/", ".")
    submodule = user.target.partition("::")[2]
    environment = {
        "PATH": f"/usr/bin:/bin:{Path(sys.executable).parent}",
        "PYTHONPATH": str(USERS),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    arguments = [stem, package.name, user.make, user.inputs, submodule, task.class_name, task.contract.device.value]
    done = subprocess.run(
        [python, "-c", USE, *arguments],
        cwd=home,
        env=environment,
        timeout=240 * PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def take_the_road(user: User, folder: Path, cache: Path, clean: Path, device: DeviceKind = DeviceKind.CPU) -> None:
    task, package = asyncio.run(packed(user, folder / "out", cache, device))
    before = clean_environment.listing(clean)
    python = clean / "bin" / "python"
    clean_environment.install(python, clean_environment.wheel(package, folder))
    try:
        use(user, task, package, python, folder)
    finally:
        clean_environment.uninstall(python, package.name)
    assert clean_environment.listing(clean) == before
    assert not (folder / "cache").exists(), "it was built again"


@pytest.mark.parametrize("user", [BY_NAME[name] for name in QUICK], ids=lambda user: user.name)
def test_a_users_module_becomes_a_package_in_use(user: User, tmp_path: Path, cache: Path, clean: Path) -> None:
    take_the_road(user, tmp_path, cache, clean)


@pytest.mark.slow
@pytest.mark.parametrize("user", [user for user in MODULES if user.name not in QUICK], ids=lambda user: user.name)
def test_the_other_modules_become_packages_in_use(user: User, tmp_path: Path, cache: Path, clean: Path) -> None:
    take_the_road(user, tmp_path, cache, clean)


@pytest.mark.gpu
@pytest.mark.parametrize("user", [BY_NAME[name] for name in ON_GPU], ids=lambda user: user.name)
def test_a_users_module_becomes_a_package_in_use_on_a_gpu(user: User, tmp_path: Path, cache: Path, clean: Path) -> None:
    take_the_road(user, tmp_path, cache, clean, DeviceKind.CUDA)


@pytest.mark.slow
@pytest.mark.parametrize("user", [BY_NAME["config_block"], BY_NAME["softcap"]], ids=lambda user: user.name)
def test_the_command_takes_a_users_module_all_the_way(user: User, tmp_path: Path, cache: Path) -> None:
    """By the command itself; a package is there exactly when it found one that is faster."""
    options = ["--device", "cpu", "--baseline", "eager", "--turns", "1", "--trajectories", "1", "--no-git", "--json"]
    done = subprocess.run(
        [KEVIN, "optimize", f"{USERS}/{user.target}", *options, *user.options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280 * PATIENCE,
        check=False,
    )
    assert done.returncode in (0, 1, 5), done.stderr
    ended = json.loads(done.stdout)
    assert (done.returncode == 0) == (ended["output"] is not None)
    if ended["output"]:
        record = json.loads((Path(ended["output"]) / "verification.json").read_text())
        assert record["target"] == user.target.partition(":")[2]
