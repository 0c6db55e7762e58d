"""What a call through the hub costs, against the same call without it: ``python -m benchmarks.gateway``."""
