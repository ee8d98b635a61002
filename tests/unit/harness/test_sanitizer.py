"""What compute-sanitizer's output says, whose fault it is, and where the tool can't be used."""

from pathlib import Path

import pytest

from kevin_cli.errors import ExitCode, MachineError
from kevin_cli.harness import sanitizer
from kevin_cli.harness.sanitizer import RAN, command, find, parse
from kevin_cli.types import DeviceKind, Isolation

SOURCE = "__global__ void scale_rows(const float* x, float* y, int n) {} template <int N> __global__ void fold(float*)"
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at scale_rows(const float *, float *, int)+0x70 in kevin.0.cu:6
=========     by thread (97,0,0) in block (0,0,0)
=========     Access to 0x7f32c0000184 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f32c0000000 of size 388 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x8ae3] in python3.12
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to x.
=========     Saved host backtrace up to driver entry point at error
========= Target application returned an error
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = f"""\
========= COMPUTE-SANITIZER
{RAN}
========= Error: Race reported between Write access at void fold<(int)4>(float *)+0x150
=========     and Read access at void fold<(int)4>(float *)+0x160 [508 hazards]
=========
========= Warning: Race reported between Write access at scale_rows(const float *, float *, int)+0x150
=========     and Read access at scale_rows(const float *, float *, int)+0x160 [8 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
INITCHECK = f"""\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4, at::native::F>(int, T1, T2)+0x70
=========     by thread (0,0,0) in block (0,0,0)
{RAN}
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = f"""\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at __syncwarp(unsigned int)+0xe0 in sm_30_intrinsics.hpp:110
=========     by thread (19,0,0) in block (0,0,0)
=========         Device Frame: scale_rows(const float *, float *, int)+0xb0 in kevin.0.cu:12
{RAN}
========= ERROR SUMMARY: 1 error
"""
CLEAN = f"========= COMPUTE-SANITIZER\n{RAN}\n========= ERROR SUMMARY: 0 errors\n"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (MEMCHECK, "Invalid __global__ read of size 4 bytes, at scale_rows(const float *, float *, int)+0x70"),
        (RACECHECK, "Error: Race reported between Write access at void fold<(int)4>(float *)+0x150, and Read access"),
        (SYNCCHECK, "Barrier error detected. Divergent thread(s) in block."),
    ],
    ids=["memcheck", "racecheck", "synccheck"],
)
def test_a_finding_in_a_kernel_of_its_own_is_the_candidate_s(output, words):
    told = parse(output)
    assert told.is_whole
    (found,) = told.of(SOURCE)
    assert found.text.startswith(words)


def test_a_finding_in_a_library_s_kernel_is_not():
    told = parse(INITCHECK)
    assert [one.functions for one in told.findings] == [("vectorized_elementwise_kernel",)]
    assert told.of(SOURCE) == ()


def test_a_warning_is_no_finding_against_anybody():
    assert [one.functions for one in parse(RACECHECK).findings if one.is_warning] == [("scale_rows",)]


def test_nothing_found_is_said_only_of_a_run_that_came_to_its_end():
    assert parse(CLEAN).is_whole
    assert parse(CLEAN).has_run
    assert not parse(CLEAN).findings
    assert not parse(CLEAN.replace(RAN, "")).has_run
    assert not parse("").is_whole


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("========= Error: No attachable process found. compute-sanitizer timed-out.\n", "No attachable process"),
        ("========= Internal Sanitizer Error: The Sanitizer encountered an error\n", "Internal Sanitizer Error"),
        ("bash: /opt/compute-sanitizer: cannot execute\n", "cannot execute"),
        ("", "printed nothing"),
    ],
)
def test_a_tool_that_could_not_check_says_why(output, complaint):
    told = parse(output)
    assert not told.is_whole
    assert complaint in told.complaint


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("scale_rows(const float *)+0x70 in a.cu:6", "scale_rows"),
        ("void ns::fold<(int)4, (bool)0>(float *)+0x70", "fold"),
        ("(anonymous namespace)::fold(float *)+0x70", "fold"),
        ("0x2c8 in fold(float *)", "fold"),
        ("0x120 in unsafe.cu:17:fold(float*)", "fold"),
        ("fold+0x7be0 in kernel.cu:49", "fold"),
        ("fold in /input/kernel.cu:9", "fold"),
        ("0x460 in myapp.cu:41", ""),
    ],
)
def test_the_function_is_named_in_every_form_of_a_place(place, name):
    assert parse(f"========= Invalid\n=========     at {place}\n").findings == () if not name else True
    assert sanitizer._function(place) == name


def test_the_program_goes_behind_the_tool_s_options():
    argv = command(Path("/cuda/bin/compute-sanitizer"), "memcheck", ["python", "-u", "x.py"])
    assert argv[:3] == ["/cuda/bin/compute-sanitizer", "--tool", "memcheck"]
    assert argv[argv.index("--") + 1 :] == ["python", "-u", "x.py"]


def test_where_it_is_asked_for_and_can_t_be_had_it_is_this_machine_s_fault(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    for device, isolation, words in (
        (DeviceKind.CPU, Isolation.BUBBLEWRAP, "these run on cpu"),
        (DeviceKind.CUDA, Isolation.LANDLOCK, "inside bubblewrap"),
    ):
        with pytest.raises(MachineError, match=words) as error:
            find(device, isolation, tmp_path)
        assert error.value.exit_code is ExitCode.MACHINE
    program = tmp_path / "compute-sanitizer"
    program.touch()
    program.chmod(0o755)
    assert find(DeviceKind.CUDA, Isolation.BUBBLEWRAP, None) == program
