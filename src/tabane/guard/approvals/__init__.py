"""Approvals of calls by a person: what they are bound to, and how long they are valid; pure."""
