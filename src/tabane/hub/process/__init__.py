"""A hub as a process: its start, its lock and log, its administration, its end."""
