"""Programs are asked with a deadline and end with everything that they started."""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from kevin_cli.harness.program import Launch, Program, describe_exit
from kevin_cli.harness.wire import ChannelClosed, DeadlineExceeded, ProtocolError

HEAD = f"""
import os, subprocess, sys, time
sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
from kevin_cli.harness.wire import Channel, Kind
channel = Channel.from_fd(int(sys.argv[2]))
channel.send(Kind.READY)
frame = channel.recv()
"""


@pytest.fixture
def start(tmp_path):
    async def starting(body):
        script = tmp_path / "script.py"
        script.write_text(HEAD + body)
        launch = Launch(program="worker", python=sys.executable, env=dict(os.environ), cwd=tmp_path, script=script)
        program = await Program.start(launch)
        await program.ready(timeout_s=20)
        return program

    return starting


async def ask(program, timeout_s=10.0):
    try:
        return await program.ask({"op": "run"}, timeout_s=timeout_s)
    finally:
        await program.stop()


def test_an_answer_comes_with_the_time_it_took(start):
    async def go():
        program = await start("time.sleep(0.2); channel.send(Kind.DONE, b'x', sequence=frame.sequence)")
        return await ask(program)

    reply = asyncio.run(go())
    assert reply.frame.payload == b"x"
    assert 0.2e9 < reply.elapsed_ns < 2e9


def test_the_answer_to_another_question_is_refused(start):
    async def go():
        await ask(await start("channel.send(Kind.DONE, sequence=frame.sequence + 1)"))

    with pytest.raises(ProtocolError):
        asyncio.run(go())


def test_a_program_that_does_not_answer_meets_the_deadline(start):
    async def go():
        await ask(await start("time.sleep(60)"), timeout_s=0.3)

    before = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        asyncio.run(go())
    assert time.monotonic() - before < 10


def test_a_question_can_be_cancelled(start):
    async def go():
        program = await start("time.sleep(60)")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(program.ask({"op": "run"}, timeout_s=60), 0.3)
        await program.stop()

    before = time.monotonic()
    asyncio.run(go())
    assert time.monotonic() - before < 10


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os._exit(0)", "ended itself with exit code 0"),
        ("os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
        ("os.close(int(sys.argv[2])); time.sleep(60)", "closed its channel and went on running"),
    ],
)
def test_how_a_program_ended_is_told_in_words(start, body, words):
    async def go():
        program = await start(body)
        with pytest.raises(ChannelClosed):
            await program.ask({"op": "run"}, timeout_s=10)
        ending = await program.ending()
        await program.stop()
        return ending

    assert asyncio.run(go()) == words


def test_what_it_printed_is_kept_and_capped(start):
    async def go():
        program = await start("print('first'); print('x' * 10_000_000); print('last'); os._exit(3)")
        with pytest.raises(ChannelClosed):
            await program.ask({"op": "run"}, timeout_s=10)
        await program.stop()
        return await program.printed()

    printed = asyncio.run(go())
    assert printed.startswith("first")
    assert printed.rstrip().endswith("last")
    assert len(printed) < 100_000


def test_nothing_that_it_started_survives_not_even_in_a_session_of_its_own(start):
    async def go():
        program = await start(
            "child = subprocess.Popen(['sleep', '61'], start_new_session=True)\n"
            "channel.send(Kind.DONE, str(child.pid).encode(), sequence=frame.sequence)\n"
            "time.sleep(60)"
        )
        reply = await program.ask({"op": "run"}, timeout_s=10)
        pid = int(reply.frame.payload)
        assert psutil.pid_exists(pid)
        await program.stop()
        return pid

    pid = asyncio.run(go())
    with contextlib.suppress(psutil.NoSuchProcess):
        for _ in range(50):
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.1)
        pytest.fail("the child survived")


def test_what_is_frozen_computes_nothing_and_goes_on_afterwards(start):
    async def go():
        program = await start(
            "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True)\n"
            "channel.send(Kind.DONE, str(child.pid).encode(), sequence=frame.sequence)\n"
            "frame = channel.recv(); channel.send(Kind.DONE, sequence=frame.sequence); time.sleep(60)"
        )
        child = psutil.Process(int((await program.ask({"op": "run"}, timeout_s=10)).frame.payload))
        program.freeze()
        await asyncio.sleep(0.1)
        stopped, before = child.status(), child.cpu_times().user
        await asyncio.sleep(0.3)
        used_s = child.cpu_times().user - before
        program.thaw()
        await program.ask({"op": "run"}, timeout_s=10)
        going = child.status()
        await program.stop()
        return stopped, used_s, going

    assert asyncio.run(go()) == (psutil.STATUS_STOPPED, 0.0, psutil.STATUS_RUNNING)


@pytest.mark.parametrize(
    ("code", "words"), [(139, "was ended by SIGSEGV"), (-9, "was ended by SIGKILL"), (255, "exit code 255")]
)
def test_a_signal_is_named_however_it_is_passed_on(code, words):
    assert words in describe_exit(code)
