"""Settings: one frozen object, made at start from flags, environment and tabane.toml, and handed down."""

from __future__ import annotations

from tabane.settings.option import Option
from tabane.settings.sources import load_settings
from tabane.settings.table import OPTIONS, Explained, Mode, Settings, Source

__all__ = ["OPTIONS", "Explained", "Mode", "Option", "Settings", "Source", "load_settings"]
