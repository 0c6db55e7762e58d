"""Settings: one frozen object, made at startup from flags, environment and tabane.toml, and passed down."""

from __future__ import annotations

from tabane.settings.option import SettingOption
from tabane.settings.sources import load_settings
from tabane.settings.table import OPTIONS, ExplainedSetting, Mode, Settings, SettingSource

__all__ = [
    "OPTIONS",
    "ExplainedSetting",
    "Mode",
    "SettingOption",
    "SettingSource",
    "Settings",
    "load_settings",
]
