"""`python -m tabane.settings` prints docs/settings.md."""

from __future__ import annotations

from tabane.settings.page import settings_page

print(settings_page(), end="")
