"""Models of a hub: found, opened on first use, remembered, and closed at the end."""

from __future__ import annotations

from tabane.hub.sources.models.hub_models import HubModels

__all__ = ["HubModels"]
