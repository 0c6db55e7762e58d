"""The name of the store of pages. Whoever only asks whether any was read imports nothing else."""

from __future__ import annotations

DOMAIN = "cache"
