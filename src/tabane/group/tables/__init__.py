"""Tables in PostgreSQL that the hubs of a group share."""
