"""The flow policy in a hub: its trails on disk, the labels of tools, and the operations on them."""
