"""The servers of a hub: their configuration, setup, trials and tools."""
