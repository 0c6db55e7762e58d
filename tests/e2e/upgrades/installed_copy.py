"""Tabane installed from wheels of its own into an environment, where an installer replaces it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from tests.conftest import ROOT, absent
from tests.e2e.upgrades.in_place import move_rooms
from tests.harness.bridge import BridgeClient
from tests.harness.home import Outcome
from tests.harness.user import User

SCRIPT = "[console_scripts]\ntabane = tabane.__main__:main\n"


def uv_path() -> str:
    """Return a PATH with uv first, if it is beside this Python."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


def build_wheel(folder: Path, version: str, *, moved: bool = False) -> Path:
    """Return a wheel of this code under another version. ``moved``: with other names of its rooms."""
    content = folder / version
    shutil.copytree(ROOT / "src" / "tabane", content / "tabane", ignore=shutil.ignore_patterns("__pycache__"))
    if moved:
        move_rooms(content / "tabane")
    init = content / "tabane" / "__init__.py"
    init.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', init.read_text()))
    (content / "tabane" / "COMMIT").write_text(hashlib.sha1(version.encode()).hexdigest() + "\n")
    info = content / f"tabane-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tabane\nVersion: {version}\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (info / "entry_points.txt").write_text(SCRIPT)
    return _zipped(content, info.name, folder / f"tabane-{version}-py3-none-any.whl")


def _zipped(content: Path, info: str, wheel: Path) -> Path:
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in sorted(content.rglob("*")):
            if path.is_file():
                name, data = path.relative_to(content).as_posix(), path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                record.append(f"{name},sha256={digest},{len(data)}")
                file.writestr(name, data)
        file.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return wheel


class InstalledCopy:
    """An environment of a user with Tabane in it, which :meth:`install` replaces as people do."""

    def __init__(self, user: User, folder: Path, installer: str = "uv") -> None:
        self._user, self._installer = user, installer
        venv.create(folder, symlinks=True, with_pip=installer == "pip")
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.python = str(folder / "bin" / "python")

    def install(self, wheel: Path) -> None:
        """Install a wheel over what is there."""
        if self._installer == "pip":
            command = [self.python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        else:
            uv = shutil.which("uv", path=uv_path())
            if uv is None:
                absent("uv")
            command = [uv, "pip", "install", "-q", "--offline", "--no-deps"]
            command += ["--python", self.python, str(wheel)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr

    def run(self, *arguments: str) -> Outcome:
        return self._user.run(*arguments, python=(self.python,))

    def assistant(self) -> BridgeClient:
        return self._user.assistant(python=self.python)
