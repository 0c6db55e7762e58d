"""The stores of a hub, opened on first use."""
