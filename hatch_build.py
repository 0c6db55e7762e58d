"""Build hook: compiles message catalogues (.po) into what gettext reads (.mo), and records the commit."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileCatalogues(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for po in Path(self.root, "src/tabane/messages/locales").glob("*/LC_MESSAGES/*.po"):
            with po.open("rb") as source:
                catalogue = read_po(source)
            made = po.with_suffix(".mo.new")
            with made.open("wb") as target:
                write_mo(target, catalogue)
            made.replace(po.with_suffix(".mo"))  # whole: somebody may read it meanwhile
        if version != "editable":
            self._record_commit(build_data)

    def _record_commit(self, build_data: dict[str, Any]) -> None:
        """Add a file with the commit to the package, if the checkout has one."""
        package = "src/tabane" if self.target_name == "sdist" else "tabane"
        commit = _commit_of(Path(self.root, "src", "tabane"))
        if commit and not Path(self.root, "src", "tabane", "COMMIT").exists():
            with tempfile.NamedTemporaryFile("w", prefix="tabane-commit-", delete=False) as file:
                file.write(commit + "\n")
            self._written = Path(file.name)
            build_data["force_include"][file.name] = f"{package}/COMMIT"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        written = getattr(self, "_written", None)
        if written is not None:
            written.unlink(missing_ok=True)


def _commit_of(package: Path) -> str:
    """Return the commit of the checkout, by the rules of the package itself."""
    sys.path.insert(0, str(package.parent))
    try:
        from tabane.build import commit_of
    finally:
        sys.path.remove(str(package.parent))
    return commit_of(str(package))
