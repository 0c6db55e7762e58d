"""The program of a package that npx has installed, so that it can be run without npx.

In a cage, npx would ask a registry that it cannot reach, with a configuration that it may not read.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tabane.upstreams.launching.package_run import PackageRun

_VERSION = re.compile(r"(?<=.)@[^/]*$")
_MOST_BYTES = 1 << 20


def installed_program(run: PackageRun, entry: Path) -> Path | None:
    """Return the program that npx would run from that entry of its cache; None if that is not certain.

    The rule is npm's: the only program of the package, or the one that is named like the package. Blocks.
    """
    programs = entry / "node_modules" / ".bin"
    if run.executable != run.package:
        name: str | None = run.executable
    else:
        name = _program_of(entry / "node_modules" / _VERSION.sub("", run.package))
    program = programs / name if name and "/" not in name else None
    return program if program is not None and program.exists() else None


def _program_of(package: Path) -> str | None:
    """Return the name of the program of an installed package."""
    try:
        data = (package / "package.json").read_bytes()
        manifest = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (OSError, ValueError):
        return None
    found = manifest.get("bin") if isinstance(manifest, dict) else None
    plain = package.name
    if isinstance(found, str):
        return plain
    if not isinstance(found, dict):
        return None
    names = [name for name in found if isinstance(name, str)]
    return names[0] if len(names) == 1 else plain if plain in names else None
