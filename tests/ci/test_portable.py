"""Windows and macOS, as far as a reader of the sources can tell: no call that only POSIX has
without a guard, texts with an encoding, and a wheel for every platform.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT

# Modules and attributes that Windows lacks, by Python's documentation.
MODULES = {
    "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty",
}  # fmt: skip
NAMES = {
    "os": {
        "chown", "chroot", "ctermid", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid",
        "getgid", "getgroups", "getloadavg", "getpgid", "getpgrp", "getpriority", "getresuid",
        "getsid", "getuid", "killpg", "lchown", "mkfifo", "mknod", "nice", "openpty", "pipe2",
        "posix_fadvise", "posix_fallocate", "posix_spawn", "pread", "pwrite", "register_at_fork",
        "sched_getaffinity", "sched_setaffinity", "sched_yield", "sendfile", "setegid", "seteuid",
        "setgid", "setpgid", "setpriority", "setsid", "setuid", "statvfs", "sync", "sysconf",
        "ttyname", "uname", "wait", "wait3", "wait4", "waitid", "WNOHANG", "O_CLOEXEC",
        "O_NONBLOCK",
    },
    "signal": {
        "SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP",
        "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "alarm", "pause", "pthread_kill",
        "pthread_sigmask", "setitimer", "sigwait",
    },
    "time": {"clock_gettime", "clock_settime", "pthread_getcpuclockid", "tzset"},
    "socket": {"AF_UNIX"},
    "select": {"epoll", "kqueue", "poll"},
    "sys": {"abiflags", "getdlopenflags", "setdlopenflags"},
}  # fmt: skip


def guards(node: ast.AST) -> Iterator[str]:
    """Names that a test asks for: hasattr(os, "fork"), sys.platform == "win32", os.name."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) in ("hasattr", "getattr"):
            name = inner.args[1]
            if isinstance(name, ast.Constant):
                yield f"{ast.unparse(inner.args[0])}.{name.value}"
        if isinstance(inner, ast.Attribute):
            text = ast.unparse(inner)
            if text in ("sys.platform", "os.name"):
                yield text


def unguarded(text: str) -> list[str]:
    """The calls of POSIX alone in a module, as "line: name"."""
    found = []

    def visit(node: ast.AST, known: frozenset[str]) -> None:
        if isinstance(node, ast.Try):
            caught = {ast.unparse(h.type) if h.type else "" for h in node.handlers}
            if any(re.search("ImportError|AttributeError|ModuleNotFoundError", c) for c in caught):
                return
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            if node.module in MODULES:
                names = [str(node.module)]
            of = NAMES.get(node.module or "", set())
            names += [f"{node.module}.{a.name}" for a in node.names if a.name in of]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NAMES.get(node.value.id, ()):
                names = [f"{node.value.id}.{node.attr}"]
        platform = known & {"sys.platform", "os.name"}
        found.extend(f"{node.lineno}: {n}" for n in names if n not in known and not platform)
        if isinstance(node, ast.If | ast.IfExp):
            asked = known | {*guards(node.test)}
            body, other = (x if isinstance(x, list) else [x] for x in (node.body, node.orelse))
            for child in [node.test, *body]:
                visit(child, asked)
            for child in other:
                visit(child, known | (asked & {"sys.platform", "os.name"}))
            return
        for child in ast.iter_child_nodes(node):
            visit(child, known)

    visit(ast.parse(text), frozenset())
    return found


def sources() -> list[Path]:
    paths = [*(ROOT / "pykernels").rglob("*.py"), *(ROOT / "codegen").rglob("*.py")]
    return [p for p in [*paths, ROOT / "hatch_build.py"] if "_generated" not in p.parts]


def test_no_call_of_posix_alone() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): calls
        for path in sources()
        if (calls := unguarded(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import os\nos.fork()", ["2: os.fork"]),
        ("import os\nx = os.getloadavg() if hasattr(os, 'getloadavg') else 0", []),
        ("import os\nx = os.getloadavg() if hasattr(os, 'fork') else 0", ["2: os.getloadavg"]),
        ("import os\nif hasattr(os, 'fork'):\n    pass\nelse:\n    os.fork()", ["5: os.fork"]),
        ("import fcntl", ["1: fcntl"]),
        ("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None", []),
        ("try:\n    import fcntl\nexcept OSError:\n    pass", ["2: fcntl"]),
        ("def f():\n    from os import sched_getaffinity", ["2: os.sched_getaffinity"]),
        ("import signal, sys\nif sys.platform != 'win32':\n    signal.SIGKILL", []),
        ("import signal\nsignal.SIGKILL", ["2: signal.SIGKILL"]),
        ("import signal\nsignal.SIGTERM", []),
    ],
)
def test_what_it_finds(text: str, wanted: list[str]) -> None:
    assert unguarded(text) == wanted


@pytest.mark.skipif(os.name != "posix", reason="the names are compared with a POSIX system")
def test_the_names_exist_here() -> None:
    """A name with a typing error would find nothing."""
    import select
    import signal
    import socket
    import sys
    import time

    here = {"os": os, "signal": signal, "time": time, "socket": socket, "select": select,
            "sys": sys}  # fmt: skip
    missing = [
        f"{module}.{name}" for module, names in NAMES.items() for name in names
        if not hasattr(here[module], name)
    ]  # fmt: skip
    assert {*missing} <= {"select.kqueue"}


def test_texts_are_opened_with_an_encoding() -> None:
    """Windows reads others as cp1252."""
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                named = {k.arg for k in node.keywords}
                least = {"read_text": 0, "write_text": 1}.get(node.func.attr)
                given = least is not None and (len(node.args) > least or "encoding" in named)
                if least is not None and not given:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_the_wheel_fits_every_platform() -> None:
    """Its tag says so if there is no build of C, and hatchling is not told otherwise."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "infer_tag" not in (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    assert {*wheel} == {"packages", "artifacts", "force-include"}
    native = [p for p in (ROOT / "pykernels").rglob("*") if p.suffix in (".so", ".pyd", ".dll")]
    assert native == []
