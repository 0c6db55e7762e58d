"""The stores that the settings name. The collections in them are declared at the first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tabane.hub.stores.stores import Shapes, Stores

if TYPE_CHECKING:
    from tabane.hub.sources.coverage import EmbeddedCollection
    from tabane.settings import Settings


def stores_of(settings: Settings, environment: Mapping[str, str]) -> Stores:
    """Return the stores that the settings name, none of which is open yet."""
    replicas = None
    if settings.local_replica:
        from tabane.hub.stores.replicas import Replicas

        replicas = Replicas(settings.home)
    if not settings.engine:
        return Stores(settings.home, _shapes, replicas=replicas)
    from tabane.hub.sources.embedded_collections import OWN
    from tabane.hub.stores.named_engine import named_engine

    return Stores(settings.home, _shapes, named_engine(settings, environment), OWN, replicas)


def embedded() -> Sequence[EmbeddedCollection]:
    """Return the collections of a hub with semantic search."""
    from tabane.hub.sources.embedded_collections import EMBEDDED

    return EMBEDDED


def _shapes() -> Shapes:
    from tabane.hub.sources.embedded_collections import SHAPES

    return SHAPES
