"""The reader measured: how much of pages is read, and nothing else with it."""
