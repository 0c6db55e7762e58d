"""Start of one process by fork and exec, in the keeper, which is small enough to fork.

The child gets its own session (and so its own group), the three descriptors and no others, and the default
for every signal. On Linux the kernel kills it when the keeper dies.
"""

from __future__ import annotations

import errno
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from typing import Any
else:
    import _signal as signal

LINUX = sys.platform == "linux"
SET_PDEATHSIG, SET_NAME, SET_SUBREAPER, GET_SUBREAPER = 1, 15, 36, 37


def prctl() -> Callable[..., int]:
    """Return Linux's prctl(2). Its arguments after the first are unsigned longs or pointers."""
    import ctypes  # the hub imports this module and may never need it

    call: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    return call


def candidates(command: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """Return the possible paths of ``command``, in order: itself if it is a path, else along env's PATH."""
    if b"/" in command:
        return [command]
    folders = env.get(b"PATH", os.defpath.encode()).split(b":")
    return [os.path.join(folder, command) for folder in folders]


def launch(
    argv: list[bytes],
    env: dict[bytes, bytes],
    cwd: bytes | None,
    stdio: Sequence[int],
    control: Callable[..., int] | None,
    cage: dict[str, Any] | None = None,
) -> tuple[int, int]:
    """Start a process; return its pid, and a pipe that reports how exec went.

    The pipe ends without data once the program runs. Otherwise it contains the marshalled pair (step, errno),
    where step is ``cwd``, ``exec``, or ``cage:`` and the part of the cage that cannot be had. ``control`` is
    prctl, on Linux. ``cage`` is what :func:`tabane.guard.cages.entering.enter` takes. Raises OSError if the
    system cannot create another process.
    """
    if cage is not None:
        import tabane.guard.cages.entering  # noqa: F401  before the fork, so that it is loaded once
    said, say = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(said)
        os.close(say)
        raise
    if pid == 0:
        _become(argv, env, cwd, stdio, control, cage, say, parent)
    os.close(say)
    return pid, said


def _become(
    argv: list[bytes],
    env: dict[bytes, bytes],
    cwd: bytes | None,
    stdio: Sequence[int],
    control: Callable[..., int] | None,
    cage: dict[str, Any] | None,
    say: int,
    parent: int,
) -> None:
    """Run the child's half of :func:`launch`; does not return."""
    step = "exec"
    try:
        os.setsid()
        if control is not None:
            control(SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                return  # the keeper died before prctl took effect
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        _forget_signals()
        if cwd is not None:
            step = "cwd"
            os.chdir(cwd)
            step = "exec"
        if cage is not None:
            step = "cage"
            from tabane.guard.cages.entering import enter  # a keeper without cages does not need it

            argv = enter(cage, argv, env)
            step = "exec"
        _exec(argv, env)
    except OSError as error:
        part = f"{step}:{error.filename}" if step == "cage" else step
        os.write(say, marshal.dumps((part, error.errno or errno.EINVAL)))
    except ValueError:  # a NUL in an argument, "=" in the name of a variable
        os.write(say, marshal.dumps((step, errno.EINVAL)))
    finally:
        os._exit(127)


def _forget_signals() -> None:
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # SIGKILL, SIGSTOP and what the C library keeps for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Run execve along PATH. Raises the first error other than "not in this folder", else ENOENT.

    os.execvpe does the same, but imports ``warnings`` for each child.
    """
    refused: OSError | None = None
    for path in candidates(argv[0], env):
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = refused or error
    raise refused or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
