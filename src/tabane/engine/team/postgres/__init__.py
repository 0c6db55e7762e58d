"""The engine on PostgreSQL: records, lexical index and vectors in one database."""
