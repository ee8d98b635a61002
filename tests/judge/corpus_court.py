"""A judge that goes from task to task of the planted corpus, for ordinary tests.

Tests ask for programs in the order of their tasks, so each task is opened once and all its programs are built side
by side before the first is judged.
"""

import asyncio
import hashlib
import os
import time
from pathlib import Path

import psutil
import torch

from kevin_cli import tasks
from kevin_cli.corpus import HERE, Planted, read_corpus, task_path
from kevin_cli.corpus.rows import judge_row
from kevin_cli.harness.examine import build_candidate
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.usual_side import UsualSide
from kevin_cli.types import Candidate, Target

SAMPLE_TASK = "scale_relu"
SAMPLE = (
    "wrong/scale_relu/drops_the_rest",
    "wrong/scale_relu/leaves_the_last_row",
    "wrong/scale_relu/leaks_below_zero",
    "wrong/scale_relu/ignores_the_bias",
    "wrong/scale_relu/weight_by_row",
    "wrong/scale_relu/weight_in_bfloat16",
    "wrong/scale_relu/keeps_the_first_input",
    "wrong/scale_relu/keeps_the_first_weight",
    "wrong/scale_relu/stops_after_forty_calls",
    "hostile/answer_theft/frame_walk",
    "hostile/stale_memory/right_three_times",
    "hostile/patched_interpreter/caller_skips_long_blocks",
    "hostile/timing/pays_in_the_next_call",
    "hostile/environment/sees_secrets",
    "hostile/build_time/takes_anothers_name",
    "hostile/protocol/endless_frame",
    "hostile/shortcut/zeroes_its_inputs",
    "honest/scale_relu/rows",
    "honest/scale_relu/fused_multiply_add",
    "honest/scale_relu/pybind_module",
    "honest/scale_relu/two_extensions",
    "honest/scale_relu/built_in_the_constructor",
    "honest/scale_relu/own_output_buffer",
)
"""What runs by default: some of every family, all of one task, so that only one is opened."""
ESCAPED = "kevin_selftest_escaped"
"""In the names of files that hostile programs plant."""


def corpus_for(kind: str, device: str) -> list[Planted]:
    """In the order of the tasks."""
    found = [planted for planted in read_corpus([kind]) if planted.runs_on(device)]
    return sorted(found, key=lambda planted: (planted.task != SAMPLE_TASK, planted.task, planted.id))


def digest_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


class Court:
    """One judge, one task at a time."""

    def __init__(self, runner: asyncio.Runner, judge: LocalJudge, settings: JudgeSettings, usual: UsualSide):
        self._runner = runner
        self._judge = judge
        self._settings = settings
        self._usual = usual
        self._asked = []
        self._built = {}
        self._sandbox = Sandbox.find().around(readable=interpreter_folders(settings.python))
        self._name = ""
        self.task = self.report = None

    def expect(self, corpus):
        """What will be asked for; it is built together."""
        self._asked += corpus

    def verdict(self, planted: Planted):
        self.turn_to(planted.task)
        return self._runner.run(self._judge.judge(self.task, planted.candidate))

    def row(self, planted: Planted):
        verdict = self.verdict(planted)
        return judge_row(planted, verdict, self.report.noise_floor), verdict

    def honest_verdict(self):
        """The reference itself as a candidate: what an honest program of this task gets."""
        source = task_path(self._name).read_text().replace("class Model(", "class ModelNew(")
        return self._runner.run(self._judge.judge(self.task, Candidate(source=source, digest=digest_of(source))))

    def usual(self, op: str, planted: Planted):
        """What the usual judge says, or whether the program is wrong on a witness."""
        built = self._built_of(planted)
        witness = planted.witness
        words = {"setup": witness.setup, "calls": witness.calls, "between": witness.between} if witness else {}
        body = {"task": str(task_path(planted.task)), "build": str(built.directory), **words}
        return self._runner.run(self._usual.ask(op, body))

    def turn_to(self, name: str):
        """Open the task, with all its programs built; nothing when it is open."""
        if name == self._name:
            return
        self._name = name
        device = self._settings.device.value
        target = Target(path=str(task_path(name)), class_name="Model", python=self._settings.python)
        self.task = tasks.lower(target, self._runner.run(self._judge.describe(target)))
        self._runner.run(self._build_all([p for p in self._asked if p.task == name and p.runs_on(device)]))
        self.report = self._runner.run(self._judge.open_task(self.task))

    def _built_of(self, planted: Planted):
        """Without opening the task again when everything was built before."""
        key = (planted.task, planted.candidate.digest)
        if key not in self._built:
            self.turn_to(planted.task)
            self._runner.run(self._build(planted.candidate))
        return self._built[key]

    async def _build_all(self, corpus):
        places = asyncio.Semaphore(len(os.sched_getaffinity(0)))

        async def one(planted):
            async with places:
                try:
                    await self._build(planted.candidate)
                except CandidateFault:
                    return

        await asyncio.gather(*(one(planted) for planted in {p.source: p for p in corpus}.values()))

    async def _build(self, candidate):
        built = self._built[self._name, candidate.digest] = await build_candidate(
            self.task,
            candidate,
            sandbox=self._sandbox,
            cache=self._settings.cache,
            timeout_s=self._settings.build_timeout_s,
        )
        return built


class Surroundings:
    """What a hostile program may not change, looked at before and after."""

    def __init__(self):
        self._start = time.time()
        self._folders = (Path.home(), HERE.parent, Path(torch.__file__).parent.parent)
        self._before = self._names()

    def changes(self) -> list[str]:
        return sorted([*(self._names() ^ self._before), *self._planted(), *self._orphans()])

    def _names(self) -> set[str]:
        """Our package and its corpus with their times; elsewhere names only, since others work there too."""
        ours = {f"{path} {path.stat().st_mtime_ns}" for path in HERE.parent.rglob("*.py")}
        return ours | {str(path) for folder in self._folders for path in folder.glob("*.p*")}

    def _planted(self) -> list[str]:
        return [str(path) for folder in (*self._folders, Path("/tmp")) for path in folder.glob(f"*{ESCAPED}*")]

    def _orphans(self) -> list[str]:
        """Workers that nobody holds any more."""
        found = []
        for process in psutil.process_iter(["ppid", "cmdline", "create_time"]):
            command = " ".join(process.info["cmdline"] or [])
            if (
                process.info["ppid"] == 1
                and "launch.py worker" in command
                and process.info["create_time"] > self._start
            ):
                found.append(command)
        return found
