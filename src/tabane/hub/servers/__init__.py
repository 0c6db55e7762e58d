"""The servers of a hub: their configuration, setup, trials and tools."""

BROKEN = ".broken"
"""End of the name of a damaged file that was set aside."""
