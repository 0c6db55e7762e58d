"""Groups of hubs."""
