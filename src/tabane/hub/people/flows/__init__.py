"""The flow policy in a hub: its trails on disk, the labels of tools, and the operations on them."""

TRAIL_FILE = "flow-trails.jsonl"
"""Name of the file of trails in the home. Whoever only looks whether it is there imports nothing else."""

WRITTEN_FILE = "flow-written.jsonl"
"""Name of the file of hashes of what servers were given after something untrusted was read."""
