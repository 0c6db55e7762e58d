"""The server that the official conformance suite runs against."""
