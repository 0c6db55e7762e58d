"""Definitions of servers: pinned by hash at first sight, compared, and reviewed by a person."""
