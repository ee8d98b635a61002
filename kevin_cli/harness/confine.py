"""The last step before a contained program: limits, a filter of system calls, and Landlock where nothing better is.

    python -I -S confine.py ORDER -- PROGRAM ARGUMENTS...

It restricts itself and becomes PROGRAM; nothing that PROGRAM starts gets out again. ORDER is JSON: `way` is
`bubblewrap` (PROGRAM is bwrap, which gets the filter as a descriptor), `landlock` (files and network are
restricted here) or `process`; `readable` and `writable` are folders, `gpu_nodes` the device nodes that it gets,
`debugged` whether a tool watches the program (inside bubblewrap only).

Runs in the controller's interpreter before anything of a candidate is there. Standard library only. Structures
and numbers are those of linux/landlock.h, linux/seccomp.h and linux/filter.h.

Not promised: more than the kernel gives. Landlock knows files, TCP, signals and abstract sockets (by its
version), not processes: who is contained by it alone sees that other processes exist.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LARGEST_FILE_BYTES = 8 << 30
MORE_TASKS = 4096
"""Processes and threads beyond those that the user has already."""
DIES_FIRST = "1000"
"""For the kernel when memory runs out: a candidate before the programs that judge it."""
SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/sys", "/proc", "/nix")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

# --- the filter of system calls ------------------------------------------------------------------------

DENIED: dict[str, dict[str, int]] = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "perf_event_open": 298,
        "bpf": 321, "userfaultfd": 323, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
        "unshare": 272, "setns": 308, "add_key": 248, "request_key": 249, "keyctl": 250, "reboot": 169,
        "kexec_load": 246, "init_module": 175, "finit_module": 313, "delete_module": 176, "swapon": 167,
        "swapoff": 168, "acct": 163, "open_by_handle_at": 304, "settimeofday": 164, "clock_settime": 227,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "perf_event_open": 241,
        "bpf": 280, "userfaultfd": 282, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
        "unshare": 97, "setns": 268, "add_key": 217, "request_key": 218, "keyctl": 219, "reboot": 142,
        "kexec_load": 104, "init_module": 105, "finit_module": 273, "delete_module": 106, "swapon": 224,
        "swapoff": 225, "acct": 89, "open_by_handle_at": 265, "settimeofday": 170, "clock_settime": 112,
    },
}  # fmt: skip
DENIED_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
}  # fmt: skip
SPECIAL = {"x86_64": {"socket": 41, "clone": 56}, "aarch64": {"socket": 198, "clone": 220}}
CLONE3 = 435
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED_FAMILIES = (1, 16)
"""Unix and netlink sockets; drivers ask the kernel through the latter."""
LOCAL_FAMILIES = (2, 10)
"""The internet's, of which a program in a network of its own has only itself."""
DEBUGGING = ("ptrace", "process_vm_readv", "process_vm_writev")
NEW_NAMESPACES = 0x7E020000
EPERM, ENOSYS = 1, 38
ALLOW, ERROR, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, JUMP_EQUAL, JUMP_MORE, JUMP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
X32_BIT = 0x40000000
SECCOMP, NO_NEW_PRIVILEGES, FILTER_MODE = 22, 38, 2


def filter_program(machine: str, *, debugged: bool = False) -> bytes:
    """The filter as `struct sock_filter`s; empty for a machine whose system calls are not known here.

    `debugged`: a tool watches the program from within. It talks to it over a local port and may look into its
    memory; with processes and a network of their own neither reaches anything else.
    """
    if machine not in ARCHITECTURES:
        return b""
    denied = {name: number for name, number in DENIED[machine].items() if not debugged or name not in DEBUGGING}
    families = (*ALLOWED_FAMILIES, *(LOCAL_FAMILIES if debugged else ()))
    numbers, special = [*denied.values(), *DENIED_EVERYWHERE.values()], SPECIAL[machine]
    lines = [(LOAD, 0, 0, ARCHITECTURE), (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]), (RETURN, 0, 0, KILL)]
    lines += [(LOAD, 0, 0, NUMBER), (JUMP_MORE, 0, 1, X32_BIT), (RETURN, 0, 0, ERROR | EPERM)]
    lines += [(JUMP_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERROR | ENOSYS)]
    for number in numbers:
        lines += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | EPERM)]
    # clone: not into new namespaces. socket: families that stay on this machine.
    lines += [(JUMP_EQUAL, 0, 4, special["clone"]), (LOAD, 0, 0, FIRST_ARGUMENT), (JUMP_BITS, 0, 1, NEW_NAMESPACES)]
    lines += [(RETURN, 0, 0, ERROR | EPERM), (RETURN, 0, 0, ALLOW)]
    lines += [(JUMP_EQUAL, 0, len(families) + 2, special["socket"]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    lines += [(JUMP_EQUAL, len(families) - place, 0, family) for place, family in enumerate(families)]
    lines += [(RETURN, 0, 0, ERROR | EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def forbid_new_privileges() -> None:
    if _libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")


def install_filter(program: bytes) -> bool:
    """In this process and all that it starts; `False` where the kernel has no such filters."""
    if not program:
        return False
    data = ctypes.create_string_buffer(program, len(program))
    whole = _Program(len(program) // 8, ctypes.cast(data, ctypes.c_char_p))
    return bool(_libc().prctl(SECCOMP, FILTER_MODE, ctypes.byref(whole), 0, 0) == 0)


# --- Landlock --------------------------------------------------------------------------------------------

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_QUERY, BENEATH_PATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
READING = EXECUTE | READ_FILE | READ_FOLDER
TCP, ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11


def landlock_version() -> int:
    """0 where the kernel has none."""
    return max(0, int(_libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_QUERY)))


def all_rights(version: int) -> int:
    """Every right to files that this version can take away, but the one to device commands."""
    return (1 << (13 if version < 2 else 14 if version < 3 else 15)) - 1


def restrict_files(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Nothing but these folders and files; no TCP, no signals to the outside where that can be had.

    Raises `OSError` where the kernel has no Landlock.
    """
    libc, version = _libc(), landlock_version()
    if version == 0:
        raise OSError(ENOSYS, "this kernel has no Landlock")
    rights = all_rights(version)
    parts = [rights, TCP if version >= 4 else 0, ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0]
    attributes = struct.pack("<QQQ", *parts)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    for path in readable:
        _allow(libc, ruleset, path, READING)
    for path in writable:
        _allow(libc, ruleset, path, rights)
    if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)


def _allow(libc: Any, ruleset: int, path: str, rights: int) -> None:
    """Paths that are not there are left out."""
    with contextlib.suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS & all_rights(landlock_version())
        libc.syscall(ADD_RULE, ruleset, BENEATH_PATH, struct.pack("<Qi", rights, place), 0)
        os.close(place)


# --- all together ----------------------------------------------------------------------------------------


def set_limits() -> None:
    """No core dumps, no endless files, no fork bomb, and first to go when memory runs out.

    Never a limit on address space: CUDA reserves far more than it uses.
    """
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: LARGEST_FILE_BYTES}
    wanted[resource.RLIMIT_NPROC] = _num_tasks() + MORE_TASKS
    for name, limit in wanted.items():
        hard = resource.getrlimit(name)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(name, (limit, limit))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(DIES_FIRST)


def _num_tasks() -> int:
    """Processes and threads of this user."""
    total, mine = 0, os.getuid()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == mine:
                total += len(os.listdir(entry / "task"))
    return total


def main(order: dict[str, Any], argv: list[str]) -> None:
    """Restrict and become the program. Raises `OSError` when that is not possible."""
    set_limits()
    contained = order["way"] == "bubblewrap"
    program = filter_program(platform.machine(), debugged=contained and order["debugged"])
    if contained:
        if program:
            place = os.memfd_create("filter", 0)
            os.write(place, program)
            os.lseek(place, 0, os.SEEK_SET)
            argv = [argv[0], "--seccomp", str(place), *argv[1:]]
        os.execvp(argv[0], argv)
    forbid_new_privileges()
    if order["way"] == "landlock":
        own = ["/proc/self"] if order["gpu_nodes"] else []
        restrict_files(
            [*SYSTEM_FOLDERS, *order["readable"]],
            [*order["writable"], *DEVICES, *order["gpu_nodes"], *own],
        )
    install_filter(program)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    split = sys.argv.index("--")
    try:
        main(json.loads(sys.argv[1]), sys.argv[split + 1 :])
    except OSError as error:
        sys.exit(f"cannot contain {sys.argv[split + 1]}: {error}")
