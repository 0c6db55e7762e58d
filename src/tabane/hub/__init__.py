"""The composition root: what runs, where it listens, and how its parts are put together."""
