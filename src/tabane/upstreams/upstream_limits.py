"""Limits of the instances of a server."""

from __future__ import annotations

from msgspec import Struct


class UpstreamLimits(Struct, frozen=True):
    """Limits of the instances of one server, and how many there may be; times in seconds.

    ``downloads`` is the number of packages that are downloaded at the same time, for all servers together.

    An instance that not all clients share is ended after ``instance_idle`` without a call. The limits of
    lists are the number and bytes of items of one list, and the bytes of all lists of a server.
    """

    start_timeout: float = 60.0
    download_timeout: float = 600.0
    downloads: int = 4
    probe_timeout: float = 1.5
    restart_first: float = 1.0
    restart_max: float = 30.0
    circuit_failures: int = 5
    circuit_wait: float = 60.0
    queue_length: int = 1000
    instance_idle: float = 600.0
    instances: int = 64
    list_items: int = 5_000
    list_size: int = 8 << 20
    catalogue_size: int = 16 << 20
