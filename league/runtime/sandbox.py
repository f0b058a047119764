"""Shuts this process in, on Linux: it reads Python and given folders, and writes, connects and starts nothing.

Landlock holds the files, seccomp the system calls, for native code as well. An audit hook sees what Python code tries
and ends the process with a line that names it. Sources: landlock(7), seccomp(2), Python's table of audit events.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Sequence
from typing import Any

SYSTEM = (
    *("/usr", "/lib", "/lib64", "/sys", "/etc/ld.so.cache", "/etc/localtime", "/etc/passwd"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/dev/null", "/dev/urandom"),
)
"""What may be read, beside Python's own folders."""
READ_FILE, READ_DIR, WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
HANDLED = (1 << 13) - 1
"""All rights of Landlock's first version."""
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
CLONE_THREAD, X32 = 0x10000, 0x40000000
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
"""What a filter returns: goes on, EPERM, ENOSYS."""
ARCHITECTURES = {
    "x86_64": (
        0xC000003E,
        {"clone": 56, "clone3": 435, "kill": 62, "tgkill": 234},
        (
            *(41, 57, 58, 59, 322, 200, 424),  # socket, fork, vfork, execve, execveat, tkill, pidfd_send_signal
            *(101, 310, 311, 248, 249, 250),  # ptrace, process_vm_readv and writev, add_key, request_key, keyctl
            *(76, 90, 91, 92, 93, 94, 260, 268, 452),  # truncate, chmod and chown in all forms
            *(132, 235, 261, 280, 188, 189, 190, 197, 198, 199),  # utime in all forms, setxattr, removexattr
            *(155, 161, 165, 166, 272, 304, 308),  # pivot_root, chroot, mount, umount2, unshare, handles, setns
            *(159, 164, 167, 168, 169, 170, 171, 172, 173, 227, 305),  # the clock, swap, reboot, names, ports
            *(175, 246, 313, 320, 321, 323, 425),  # modules, kexec, bpf, userfaultfd, io_uring
        ),
    ),
    "aarch64": (
        0xC00000B7,
        {"clone": 220, "clone3": 435, "kill": 129, "tgkill": 131},
        (
            *(198, 221, 281, 130, 424),  # in the order of the first
            *(117, 270, 271, 217, 218, 219),
            *(45, 52, 53, 54, 55, 452),
            *(88, 5, 6, 7, 14, 15, 16),
            *(41, 51, 40, 39, 97, 265, 268),
            *(112, 142, 161, 162, 170, 171, 224, 225, 266),
            *(105, 104, 273, 294, 280, 282, 425),
        ),
    ),
}
"""Machine -> its number in AUDIT_ARCH, the calls that are looked at, and those that are refused."""
NAMES = {
    "socket.__new__": "opens a socket",
    "subprocess.Popen": "starts a program",
    "os.system": "starts a program",
    "os.exec": "starts a program",
    "os.posix_spawn": "starts a program",
    "os.fork": "forks",
    "os.forkpty": "forks",
    "os.remove": "removes a file",
    "os.rename": "renames a file",
    "os.mkdir": "makes a folder",
    "os.rmdir": "removes a folder",
    "os.link": "makes a link",
    "os.symlink": "makes a link",
    "os.truncate": "writes a file",
    "os.chmod": "changes a file",
    "os.kill": "sends a signal",
}
"""Audit event -> what the code does."""
CODE = 86
"""Exit code of a process whose code tried what it may not."""


def is_possible() -> bool:
    """Whether this machine has Landlock, and seccomp filters for its processor."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        return False
    return int(_libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))) >= 1


def enter(folders: Sequence[str]) -> None:
    """From here on this process can read these folders, Python's and the system's, and change nothing outside itself.

    Raises:
        OSError: the kernel refuses.
    """
    readable = [os.path.realpath(path) for path in (*folders, sys.prefix, sys.base_prefix, *sys.path, *SYSTEM) if path]
    sys.dont_write_bytecode, sys.pycache_prefix = True, None  # compiled files elsewhere could not be read
    _check(_libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _hold_files(readable)
    _hold_calls()
    sys.addaudithook(lambda event, arguments: _look(event, arguments, readable))


def _hold_files(readable: Sequence[str]) -> None:
    libc, handled = _libc(), struct.pack("Q", HANDLED)
    ruleset = _check(libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint32(0)))
    for path in filter(os.path.exists, dict.fromkeys(readable)):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = READ_FILE | READ_DIR if os.path.isdir(path) else READ_FILE
        allowed |= WRITE_FILE if path == os.devnull else 0
        rule = struct.pack("=Qi", allowed, place)
        _check(libc.syscall(ADD_RULE, ruleset, ctypes.c_int(1), rule, ctypes.c_uint32(0)))
        os.close(place)
    _check(libc.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)


def _hold_calls() -> None:
    """Loads a filter in classic BPF: (code, jump if true, jump if false, value) each."""
    number, watched, refused = ARCHITECTURES[platform.machine()]
    load, equal, at_least, has_bits, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, number), (answer, 0, 0, REFUSE), (load, 0, 0, 0)]
    if number == ARCHITECTURES["x86_64"][0]:
        lines += [(at_least, 0, 1, X32), (answer, 0, 0, REFUSE)]
    lines += [(equal, 0, 1, watched["clone3"]), (answer, 0, 0, UNKNOWN)]  # its flags lie in memory: use `clone`
    lines += [(equal, 0, 4, watched["clone"]), (load, 0, 0, 16), (has_bits, 1, 0, CLONE_THREAD)]
    lines += [(answer, 0, 0, REFUSE), (answer, 0, 0, ALLOW)]
    for call in (watched["kill"], watched["tgkill"]):  # to itself alone
        lines += [(equal, 0, 4, call), (load, 0, 0, 16), (equal, 1, 0, os.getpid())]
        lines += [(answer, 0, 0, REFUSE), (answer, 0, 0, ALLOW)]
    for call in refused:
        lines += [(equal, 0, 1, call), (answer, 0, 0, REFUSE)]
    lines.append((answer, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HP", len(lines), ctypes.addressof(code))
    _check(_libc().prctl(SET_SECCOMP, FILTER, program, 0, 0))


def _look(event: str, arguments: tuple[Any, ...], readable: Sequence[str]) -> None:
    """Ends the process where Python code tries what it may not."""
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int):
            return
        where = os.path.realpath(os.fsdecode(path))
        if where == os.devnull:
            return
        writes = flags & (os.O_WRONLY | os.O_RDWR) if isinstance(flags, int) else set(mode or "r") & set("wax+")
        if writes:
            _end(f"writes the file {path!r}")
        if not any(where == each or where.startswith(f"{each}{os.sep}") for each in readable):
            _end(f"reads the file {path!r}")
    elif event in NAMES:
        _end(f"{NAMES[event]} ({event})")


def _end(what: str) -> None:
    os.write(2, f"{what[:300]}, which a match does not allow\n".encode())
    os._exit(CODE)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
