"""Build hook: compiles message catalogues and the vector kernel, adds the manual, and records the commit.

Catalogues (.po) become what gettext reads (.mo). If there is a C compiler, the kernel becomes a module for
all versions of CPython from 3.11 on. Without it, the package works the same, but slower.
``TABANE_COMPILED=0`` leaves it out. With ``TABANE_COMPILED=1``, a build that cannot compile it fails.
"""

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNEL = "tabane/engine/embedded/vectors/_kernel"
_OLDEST = (3, 11)


class CompileCatalogues(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._written: list[Path] = []
        for po in Path(self.root, "src/tabane/messages/locales").glob("*/LC_MESSAGES/*.po"):
            with po.open("rb") as source:
                catalogue = read_po(source)
            made = po.with_suffix(".mo.new")
            with made.open("wb") as target:
                write_mo(target, catalogue)
            made.replace(po.with_suffix(".mo"))  # whole: somebody may read it meanwhile
        if self.target_name == "wheel":
            self._add_kernel(build_data, in_place=version == "editable")
        if version != "editable":
            self._record_commit(build_data)
            if self.target_name == "wheel":
                self._add_manual(build_data)

    def _add_manual(self, build_data: dict[str, Any]) -> None:
        """Add the pages for users, so that `tabane search --in docs` has them wherever it is installed.

        `tabane update` shows what is new from the list of changes.
        """
        build_data["force_include"][str(Path(self.root, "CHANGELOG.md"))] = "tabane/CHANGELOG.md"
        for entry in Path(self.root, "docs").iterdir():
            if entry.name != "development":
                build_data["force_include"][str(entry)] = f"tabane/docs/{entry.name}"

    def _record_commit(self, build_data: dict[str, Any]) -> None:
        """Add a file with the commit to the package, if the checkout has one."""
        package = "src/tabane" if self.target_name == "sdist" else "tabane"
        commit = _commit_of(Path(self.root, "src", "tabane"))
        if commit and not Path(self.root, "src", "tabane", "COMMIT").exists():
            with tempfile.NamedTemporaryFile("w", prefix="tabane-commit-", delete=False) as file:
                file.write(commit + "\n")
            self._written.append(Path(file.name))
            build_data["force_include"][file.name] = f"{package}/COMMIT"

    def _add_kernel(self, build_data: dict[str, Any], *, in_place: bool) -> None:
        """Compile the kernel, and put it beside its source or into the wheel, which gets a platform tag."""
        with tempfile.TemporaryDirectory(prefix="tabane-kernel-") as folder:
            made = _compiled(Path(self.root, "src", f"{KERNEL}.c"), Path(folder))
            if made is None:
                return
            name = f"{KERNEL}.abi3{made.suffix}" if made.suffix == ".so" else f"{KERNEL}{made.suffix}"
            if in_place:
                beside = Path(self.root, "src", name)
                copy = beside.with_name(f"{beside.name}.new")
                copy.write_bytes(made.read_bytes())
                copy.replace(beside)  # whole: a process may have the old one mapped
                return
            with tempfile.NamedTemporaryFile(prefix="tabane-kernel-", delete=False) as file:
                file.write(made.read_bytes())
            os.chmod(file.name, 0o755)
        self._written.append(Path(file.name))
        build_data["force_include"][file.name] = name
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp{_OLDEST[0]}{_OLDEST[1]}-abi3-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        for written in self._written:
            written.unlink(missing_ok=True)


def _compiled(source: Path, folder: Path) -> Path | None:
    """Compile an extension module in a folder. None if that is not possible, or not wanted."""
    wanted = os.environ.get("TABANE_COMPILED", "")
    limited = (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and sys.maxsize > 1 << 32  # the kernel's indexes have 64 bits, and numpy's have as many there
    )
    if wanted == "0" or not (limited or wanted):
        return None
    from setuptools import Distribution, Extension

    flags = [] if os.name == "nt" else ["-O3", "-std=c11"]
    module = Extension("_kernel", [str(source)], py_limited_api=True, extra_compile_args=flags)
    command = Distribution({"name": "kernel", "ext_modules": [module]}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(folder), str(folder / "objects")
    try:
        command.ensure_finalized()
        command.run()
    except (
        Exception
    ) as error:  # no compiler, no headers of Python, …: whatever it is, an installation goes on
        if wanted:
            raise
        print(f"The vector kernel was not compiled, so numpy does its work: {error}", file=sys.stderr)
        return None
    return next(path for path in folder.glob("_kernel*") if path.suffix in {".so", ".pyd"})


def _commit_of(package: Path) -> str:
    """Return the commit of the checkout, by the rules of the package itself."""
    sys.path.insert(0, str(package.parent))
    try:
        from tabane.build import commit_of
    finally:
        sys.path.remove(str(package.parent))
    return commit_of(str(package))
