"""The cages of a hub, loaded with the first server that has one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.guard.cages.cages import Cages

_PACKAGE = str(Path(__file__).resolve().parents[3])
_RUN = "import sys; sys.path.append(sys.argv[1]); from tabane.hub.work.caged_network import main; main()"


PROXY = (sys.executable, "-I", "-c", _RUN, _PACKAGE)
"""The command of the proxy to allowed hosts, which is given their names as further arguments."""


def cages_of(settings: Settings, environment: Mapping[str, str]) -> Callable[[], Cages]:
    """Return what returns the builder of cages, the same one each time."""

    @cache
    def cages() -> Cages:
        from tabane.guard.cages.cages import Cages  # most hubs have no caged server

        own = [settings.servers, settings.config]
        return Cages(settings.home, own, environment, PROXY)

    return cages
