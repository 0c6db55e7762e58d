"""The engine on PostgreSQL: ingest, queries, and what it adds to a bare driver."""
