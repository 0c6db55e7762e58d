"""The command of a hint, run as printed, adds the extra to the copy that printed it: real installers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
LIMIT = 600  # seconds that only a hang reaches
ASK = "from tabane.extras import extra_command; print(extra_command('images'))"

pytestmark = pytest.mark.skipif(not UV.exists(), reason="needs uv in the environment of the tests")


class Machine:
    """An empty home in which Tabane is installed from a wheel of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")
            },
            "HOME": str(folder),
            "UV_TOOL_DIR": str(folder / "tools"),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "PATH": os.pathsep.join((str(folder / "bin"), str(UV.parent), os.environ["PATH"])),
        }

    def run(self, *command: str | Path) -> str:
        return self._run(command, shell=False)

    def run_hint(self, python: Path) -> str:
        """Run the command that the hint of this copy contains, in a shell, and return it."""
        hint = self.run(python, "-c", ASK).strip()
        self._run(hint, shell=True)
        return hint

    def has(self, python: Path, *modules: str) -> bool:
        return self.run(python, "-c", f"import {', '.join(modules)}; print('yes')").strip() == "yes"

    def _run(self, command: object, *, shell: bool) -> str:
        done = subprocess.run(
            command,  # type: ignore[call-overload]
            shell=shell,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "-q", "--wheel", "-o", folder, ROOT], check=True, timeout=LIMIT)
    return next(folder.glob("*.whl"))


def test_a_tool_of_uv_gets_the_extra_and_keeps_the_others(tmp_path: Path, wheel: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(UV, "tool", "install", "-q", "--with", "iniconfig", f"tabane[oauth] @ {wheel.as_uri()}")
    python = tmp_path / "tools" / "tabane" / "bin" / "python"
    assert machine.run_hint(python).startswith("uv tool install ")
    assert machine.has(python, "PIL", "jwt", "iniconfig")


def test_an_environment_with_pip_gets_the_extra(tmp_path: Path, wheel: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(sys.executable, "-m", "venv", "venv")
    python = tmp_path / "venv" / "bin" / "python"
    machine.run(python, "-m", "pip", "install", "-q", wheel)
    assert machine.run_hint(python).startswith(f"{python} -m pip install ")
    assert machine.has(python, "PIL")


def test_a_copy_of_pipx_gets_the_extra_and_keeps_the_others(tmp_path: Path, wheel: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(UV, "tool", "install", "-q", "pipx")
    machine.run("pipx", "install", "-q", f"{wheel}[oauth]")
    python = tmp_path / "pipx" / "venvs" / "tabane" / "bin" / "python"
    assert machine.run_hint(python).startswith("pipx install --force ")
    assert machine.has(python, "PIL", "jwt")
