"""Types of results, learned from results that were seen: shapes, their bounds, and their JSON Schema."""
