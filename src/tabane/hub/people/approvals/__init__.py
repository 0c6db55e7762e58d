"""Approvals in a hub: who waits for one, where they are kept, and the operations on them."""
