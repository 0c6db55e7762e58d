"""The official conformance suite, in front of a hub that is in front of one conforming server."""
