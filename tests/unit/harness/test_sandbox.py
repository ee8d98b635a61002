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
    code = (
        "import os, socket\n"
        "print(len([p for p in os.listdir('/proc') if p.isdigit()]) <= 3)\n"
        "s = socket.socket(); s.settimeout(2)\n"
        "print(s.connect_ex(('1.1.1.1', 80)) != 0)\n"
    )
    assert run(sandbox, code).stdout == "True\nTrue\n"


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
