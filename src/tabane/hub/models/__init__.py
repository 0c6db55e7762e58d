"""Models of a hub: found, opened on first use, remembered, and closed at the end.

Before a model is needed, nothing else of this room is imported.
"""

from __future__ import annotations

from tabane.hub.models.models import HubModels

__all__ = ["HubModels"]
