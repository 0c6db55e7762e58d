"""The models of a hub: found, opened when first needed, remembered, and closed at the end.

Nothing here is imported before a model is asked for, but this and what it says of itself.
"""

from __future__ import annotations

from tabane.hub.models.models import HubModels

__all__ = ["HubModels"]
