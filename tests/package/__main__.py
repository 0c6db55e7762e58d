"""The package as a stranger gets it: ``python -m tests.package``, or ``make package``.

Builds sdist and wheels, looks into them, installs a wheel into an empty environment of each Python of this
machine, and runs commands there; with the last one, the demo on real servers through ``uvx --from WHEEL``.
There is a wheel without compiled code, for every platform, and one with it if there is a compiler here.
Extras are resolved on each Python. The small ones are installed too; the others take up to 5.6 GB. With
`--one`, only the Python that runs this is tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tabane import __version__

ROOT = Path(__file__).parents[2]
OLDEST, MOST_MB = (3, 11), 230
AT_ONCE = 4
Pair = tuple[str, str]
INSTALLED = {
    "brotli": "brotli",
    "images": "PIL.Image",
    "oauth": "jwt, cryptography",
    "office": "tabane.reader.formats.office",
}
"""Extras that are small enough to be installed, and what must be importable then."""
NEEDED = (
    "tabane/messages/locales/ja/LC_MESSAGES/tabane.mo",
    "tabane/docs/install.md",
    "tabane/CHANGELOG.md",
    "tabane/COMMIT",
    "tabane/py.typed",
    "tabane/cli/skill/SKILL.md",
    "tabane/web/static/vendor/README.md",
)
"""Files of the wheel that no import would miss."""


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tabane-package-") as made:
        folder = Path(made)
        pure = built(folder / "pure", "0")
        wheel = built(folder / "compiled", "1") if shutil.which("cc") else pure
        (folder / "tabane.toml").touch(mode=0o600)
        pythons = [sys.executable] if "--one" in sys.argv else usable_pythons()
        for python in pythons:
            minimal(wheel, python, folder)
        minimal(pure, pythons[-1], folder)
        together(lambda pair: resolved(wheel, *pair, folder), product(pythons, extras()))
        together(lambda pair: installed(wheel, pythons[-1], *pair, folder), INSTALLED.items())
        demo(wheel, pythons[-1], folder)
    print(f"package: all right, {time.monotonic() - began:.0f} s")
    return 0


def together(work: Callable[[Pair], None], pairs: Iterable[Pair]) -> None:
    """Do the work for several pairs at once: most of it is waiting for a package index."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(work, pairs):
            pass


def built(folder: Path, compiled: str) -> Path:
    """Return a wheel without ("0") or with ("1") the compiled kernel, made from the source package."""
    run(uv(), "build", "--quiet", "--out-dir", str(folder), str(ROOT), compiled=compiled)
    wheel = next(folder.glob("*.whl"))
    tag = "py3-none-any" if compiled == "0" else "cp311-abi3-"
    assert wheel.name.startswith(f"tabane-{__version__}-{tag}"), wheel.name
    look_into(wheel, next(folder.glob("*.tar.gz")), compiled == "1")
    return wheel


def look_into(wheel: Path, source: Path, compiled: bool) -> None:
    """Exit if a file is missing, or one is there that should not be."""
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    kernels = [name for name in names if name.endswith((".so", ".pyd"))]
    assert len(kernels) == compiled, f"compiled code in {wheel.name}: {kernels}"
    missing = [name for name in NEEDED if name not in names]
    extra = [name for name in names if name.startswith(("tests/", "tabane/docs/development/"))]
    assert not missing, f"not in the wheel: {missing}"
    assert not extra, f"in the wheel: {extra}"
    with tarfile.open(source) as packed:
        there = {name.partition("/")[2] for name in packed.getnames()}
    assert {"README.md", "LICENSE", "NOTICE", "hatch_build.py", "src/tabane/COMMIT"} <= there
    print(f"package: {wheel.name} {wheel.stat().st_size >> 10:,} kB, {source.name}")


def usable_pythons() -> list[str]:
    """Return an interpreter for each supported version on this machine, oldest first."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found: dict[tuple[int, ...], str] = {}
    named = (f"python3.{minor}" for minor in range(OLDEST[1], 20))
    given = [sys.executable, *map(str, pyenv.glob("*/bin/python3")), *filter(None, map(shutil.which, named))]
    for python in given:
        done = subprocess.run(
            [python, "-c", "import sys, venv; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        version = tuple(map(int, done.stdout.split())) if done.returncode == 0 else (0,)
        if version >= OLDEST:
            found.setdefault(version, python)
    return [found[version] for version in sorted(found)]


def minimal(wheel: Path, python: str, folder: Path) -> None:
    """Install the wheel alone, measure it, and run commands that need no server."""
    environment = fresh(python, folder / "environment")
    install(environment, str(wheel), "--link-mode", "copy")  # so that its size is its own
    size = sum(file.lstat().st_blocks for file in environment.rglob("*")) * 512 / (1 << 20)
    tabane, home = str(environment / "bin" / "tabane"), folder / "home"
    said = run(tabane, "--version", home=home).strip()
    assert __version__ in said, said
    assert "name: tabane" in run(tabane, "skill", "print", home=home)
    assert "ExecStart" in run(tabane, "service", "install", "--print", home=home) or sys.platform == "darwin"
    run(tabane, "docs", "put", "-", "--id", "a", home=home, text="The caretaker keeps the spare key.")
    assert "caretaker" in run(tabane, "docs", "search", "spare key", home=home)
    kernel = "from tabane.engine.embedded.vectors.vector_kernel import KERNEL; print(type(KERNEL).__name__)"
    used = run(str(environment / "bin" / "python"), "-c", kernel).strip()
    assert used == ("CompiledKernel" if "-abi3-" in wheel.name else "NumpyKernel"), used
    run(tabane, "stop", home=home)
    version = run(python, "--version").split()[1]
    print(f"package: Python {version}: {size:.0f} MB installed, {used}")
    assert size <= MOST_MB, f"more than {MOST_MB} MB"


def extras() -> list[str]:
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def resolved(wheel: Path, python: str, extra: str, folder: Path) -> None:
    """Exit if the extra has no solution on that Python. Nothing is installed."""
    wanted = folder / f"{python.strip('/').replace('/', '-')}-{extra}.in"
    wanted.write_text(f"tabane[{extra}] @ {wheel.as_uri()}\n")
    run(uv(), "pip", "compile", "--quiet", "--no-config", "--python", python, str(wanted))
    print(f"package: Python {run(python, '--version').split()[1]}: tabane[{extra}] can be resolved")


def installed(wheel: Path, python: str, extra: str, modules: str, folder: Path) -> None:
    environment = fresh(python, folder / extra)
    install(environment, f"tabane[{extra}] @ {wheel.as_uri()}")
    run(str(environment / "bin" / "python"), "-c", f"import {modules}")
    print(f"package: tabane[{extra}] works")


def demo(wheel: Path, python: str, folder: Path) -> None:
    """Run the demo as somebody who only has uv."""
    tool = (uv(), "tool", "run", "--no-config", "--python", python, "--from", str(wheel))
    shown = run(*tool, "tabane", "demo", home=folder / "home")
    print(shown if "--verbose" in sys.argv else "package: the demo works from the wheel")


def fresh(python: str, environment: Path) -> Path:
    run(uv(), "venv", "--quiet", "--clear", "--no-config", "--python", python, str(environment))
    return environment


def install(environment: Path, what: str, *options: str) -> None:
    python = str(environment / "bin" / "python")
    run(uv(), "pip", "install", "--quiet", "--no-config", *options, "--python", python, what)


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or sys.exit("package: uv is missing")


def run(*command: str, home: Path | None = None, text: str = "", compiled: str = "") -> str:
    """Return the output of a command. Exits with its errors if it fails. ``compiled``: for a build."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("TABANE_", "VIRTUAL_"))
    }
    if home is not None:
        environ |= {"TABANE_HOME": str(home), "TABANE_HTTP": "false", "TABANE_LANG": "en"}
        environ["TABANE_CONFIG"] = str(home.with_name("tabane.toml"))
    if compiled:
        environ["TABANE_COMPILED"] = compiled
    done = subprocess.run(
        command, env=environ, cwd=ROOT.parent, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"package: {_line(command)} failed ({done.returncode})\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _line(command: Sequence[str]) -> str:
    return " ".join(command)


if __name__ == "__main__":
    sys.exit(main())
