"""Process of a hub: start, lock, log, administration and end."""
