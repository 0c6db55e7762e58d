"""Which parts of a page are what a person would read there."""
