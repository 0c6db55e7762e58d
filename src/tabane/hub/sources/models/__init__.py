"""Models of a hub: found, opened on first use, remembered, and closed at the end."""
