"""Protection against servers: their definitions, the sandboxes they run in, and rules on the flow of data."""
