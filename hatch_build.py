"""Build hook: compiles the message catalogues (.po) into what gettext reads at run time (.mo)."""

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
            with po.with_suffix(".mo").open("wb") as target:
                write_mo(target, catalogue)
