"""What is told of settings: each with its value and where that came from."""

from __future__ import annotations

from typing import Any

from tabane.messages import Lang
from tabane.settings import Settings


def settings_report(settings: Settings, lang: Lang) -> list[dict[str, Any]]:
    """One row for each setting: name, value, unit, source (flag, environment, file, default), where, help."""
    return [
        {
            "name": setting.name,
            "value": _plain(setting.value),
            "unit": setting.unit.render(lang) if setting.unit else None,
            "source": setting.source.kind,
            "where": setting.source.where,
            "help": setting.help.render(lang),
        }
        for setting in settings.explain()
    ]


def _plain(value: Any) -> int | float | str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if value is None:
        return ""
    return value if isinstance(value, int | float) else str(value)
