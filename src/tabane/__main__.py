"""Entry point of `tabane`. Processes that must start fast begin before any library is imported."""

from __future__ import annotations

import gc
import sys

_COLLECT_AFTER = 20_000
"""New objects after which a command looks for garbage. A command is short, and imports leave none."""


_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and exit with the status of the command."""
    try:
        _run()
    except KeyboardInterrupt:  # while modules are imported
        sys.exit(_INTERRUPTED)


def _run() -> None:
    _open_streams()
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["mcp"]:
        if sys.stdin.isatty() and sys.stdout.isatty():
            from tabane.cli.lifecycle import tell_of_assistants

            tell_of_assistants()
        from tabane.hub.bridge import mcp_command

        request = mcp_command.parse_arguments(arguments, _environment())
        if request is not None:
            sys.exit(mcp_command.run(request, _environment()))
    elif command == ["_hub"]:
        gc.disable()  # until the hub is open: a collection would only look at what was imported
        from tabane.hub.process.serve import run_detached

        sys.exit(run_detached(arguments))
    _interruptible()
    gc.set_threshold(_COLLECT_AFTER)
    from tabane.cli.main import main as command_line
    from tabane.cli.output import clean_streams

    clean_streams()
    command_line(prog_name="tabane")


def _open_streams() -> None:
    """Let a standard stream that is closed be one that holds nothing.

    Else the next file or socket would get its number, and what is printed.
    """
    import os

    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            stream = open(number, mode, encoding="utf-8")  # noqa: SIM115
            for kept in (name, f"__{name}__"):
                setattr(sys, kept, stream)


def _interruptible() -> None:
    """Let Ctrl+C end a command even if it was started by a program that ignores SIGINT.

    A shell script's `tabane … &` inherits this setting, as do programs that `nohup` starts.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


if __name__ == "__main__":
    main()
