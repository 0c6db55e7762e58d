"""How times, memory, disk and ingest grow with the records of a collection, and with the hubs of a group."""
