"""What a contained program can and cannot see; tried with real programs in a real sandbox."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kevin_cli.errors import MachineError
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.types import Isolation


@pytest.fixture(scope="module")
def sandbox():
    found = Sandbox.find()
    if found.level is not Isolation.BUBBLEWRAP:
        pytest.skip(f"no bubblewrap here: {found.note}")
    return found.around(readable=interpreter_folders(sys.executable))


def run(sandbox, code, **options):
    argv = sandbox.contain([sys.executable, "-c", code], **options)
    env = sandbox.environment(Path("/tmp"))
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_user_s_target_and_the_run_are_hidden(sandbox, tmp_path):
    (tmp_path / "model.py").write_text("secret")
    hiding = sandbox.around(hidden=[tmp_path])
    done = run(hiding, f"import os; print(os.path.exists({str(tmp_path / 'model.py')!r}))")
    assert done.stdout == "False\n"


def test_what_is_named_readable_is_seen_inside_a_hidden_folder_and_cannot_be_written(sandbox, tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "candidate.py").write_text("shown")
    code = f"p={str(inbox / 'candidate.py')!r}; print(open(p).read()); open(p, 'w')"
    done = run(sandbox.around(hidden=[tmp_path]), code, readable=[inbox])
    assert done.stdout == "shown\n"
    assert "Read-only file system" in done.stderr


def test_a_readable_folder_may_be_named_through_a_link(sandbox, tmp_path):
    """A toolkit is often a link beside its versions (`cuda` to `cuda-13.0`), outside of hidden folders or inside."""
    real = tmp_path / "toolkit-13.0"
    real.mkdir()
    (real / "version").write_text("13.0")
    link = tmp_path / "toolkit"
    link.symlink_to(real)
    code = f"print(open({str(link / 'version')!r}).read(), open({str(real / 'version')!r}).read())"
    assert run(sandbox.around(hidden=[tmp_path]), code, readable=[link]).stdout == "13.0 13.0\n"
    etc = Path("/etc/alternatives")
    assert run(sandbox, "print('fine')", readable=[path for path in etc.iterdir() if path.is_symlink()][:3]).stdout


def test_only_what_is_named_writable_is_changed(sandbox, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    code = f"open({str(place / 'x')!r}, 'w').write('1'); open('/etc/kevin-was-here', 'w')"
    done = run(sandbox, code, writable=[place])
    assert (place / "x").read_text() == "1"
    assert "Read-only file system" in done.stderr


def test_there_is_no_network_and_no_other_process(sandbox):
    code = "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]) <= 3)"
    assert run(sandbox, code).stdout == "True\n"
    assert "Operation not permitted" in run(sandbox, "import socket; socket.socket()").stderr


def test_descriptors_that_are_passed_arrive(sandbox):
    readable, writable = os.pipe()
    argv = sandbox.contain([sys.executable, "-c", f"import os; os.write({writable}, b'hello')"], pass_fds=[writable])
    subprocess.run(argv, env=sandbox.environment(Path("/tmp")), pass_fds=[writable], timeout=60, check=True)
    assert os.read(readable, 5) == b"hello"
    os.close(readable)
    os.close(writable)


def test_there_are_no_core_dumps(sandbox):
    done = run(sandbox, "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))")
    assert done.stdout == "(0, 0)\n"


def test_secrets_in_the_environment_do_not_reach_a_candidate():
    given = {"PATH": "/bin", "OPENAI_API_KEY": "x", "LD_PRELOAD": "y", "OMP_NUM_THREADS": "2", "HOME": "/home/me"}
    env = Sandbox(level=Isolation.PROCESS, note="").environment(Path("/scratch"), given)
    assert env == {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "2",
        "HOME": "/scratch",
        "TMPDIR": "/scratch",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def test_without_bubblewrap_a_program_still_runs_with_limits():
    plain = Sandbox(level=Isolation.PROCESS, note="not installed")
    done = subprocess.run(
        plain.contain([sys.executable, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "(0, 0)\n"


def test_an_interpreter_that_is_not_there_is_one_line_with_a_hint():
    with pytest.raises(MachineError, match="does not run") as raised:
        interpreter_folders("/nowhere/python")
    assert "--python" in raised.value.hint


@pytest.fixture
def landlock():
    found = Sandbox(level=Isolation.LANDLOCK, note="").around(readable=interpreter_folders(sys.executable))
    if found._failure():
        pytest.skip(f"no Landlock here: {found._failure()}")
    return found


def test_under_landlock_only_system_folders_and_what_is_named_can_be_read(landlock, tmp_path):
    (tmp_path / "model.py").write_text("secret")
    code = f"print(open({str(tmp_path / 'model.py')!r}).read())"
    assert "Permission denied" in run(landlock, code).stderr
    assert run(landlock, code, readable=[tmp_path]).stdout == "secret\n"


def test_under_landlock_only_what_is_named_can_be_written(landlock, tmp_path):
    code = f"open({str(tmp_path / 'x')!r}, 'w').write('1'); open('/etc/kevin-was-here', 'w')"
    done = run(landlock, code, writable=[tmp_path])
    assert (tmp_path / "x").read_text() == "1"
    assert "Permission denied" in done.stderr


def test_under_landlock_the_judge_can_be_neither_ended_nor_read(landlock):
    code = f"import os; os.kill({os.getpid()}, 0)"
    assert "Operation not permitted" in run(landlock, code).stderr
    assert "Permission denied" in run(landlock, f"open('/proc/{os.getpid()}/mem', 'rb').read(1)").stderr


@pytest.mark.parametrize("level", list(Isolation))
def test_at_every_level_calls_that_reach_out_are_refused(level, sandbox):
    contained = Sandbox(level=level, note="", bwrap=sandbox.bwrap).around(readable=interpreter_folders(sys.executable))
    code = (
        "import ctypes, os, socket, threading\n"
        "libc = ctypes.CDLL(None)\n"
        "print(libc.ptrace(16, 1, 0, 0), libc.unshare(0x10000000), libc.syscall(425, 8, 0))\n"
        "thread = threading.Thread(target=lambda: print(bool(socket.socketpair()))); thread.start(); thread.join()\n"
        "print(os.system('exit 3') >> 8)\n"
    )
    assert run(contained, code).stdout == "-1 -1 -1\nTrue\n3\n"


def test_a_fork_bomb_and_a_core_dump_meet_a_limit_and_candidates_go_first_when_memory_runs_out(sandbox):
    code = (
        "import resource\n"
        "print(resource.getrlimit(resource.RLIMIT_NPROC)[0] < 100_000, int(open('/proc/self/oom_score_adj').read()))"
    )
    assert run(sandbox, code).stdout == "True 1000\n"


def test_a_reward_is_refused_below_a_level():
    assert Isolation.BUBBLEWRAP.reaches(Isolation.LANDLOCK)
    assert Isolation.LANDLOCK.reaches(Isolation.LANDLOCK)
    assert not Isolation.PROCESS.reaches(Isolation.LANDLOCK)


def test_a_debugged_program_has_a_local_port_and_no_way_out(sandbox):
    """compute-sanitizer talks to what it checks over one; other programs may not even make such a socket."""
    code = (
        "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_connection(a.getsockname()); print('in')"
    )
    out = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    env = sandbox.environment(Path("/tmp"))
    for debugged, said in ((True, "in\n"), (False, "")):
        argv = [*sandbox.wrap(debugged=debugged), sys.executable, "-c", code]
        assert subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False).stdout == said
    argv = [*sandbox.wrap(debugged=True), sys.executable, "-c", out]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "unreachable" in done.stderr
