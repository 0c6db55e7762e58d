"""Fetching: what is at a URL, whole and decompressed, under the guard and within every limit.

What is heavy (httpcore2, h2, brotli) is imported with the first fetch.
"""

from tabane.reader.fetching.fetching import Fetching
from tabane.reader.fetching.policy import Policy
from tabane.reader.fetching.resolving import Resolver

__all__ = ["Fetching", "Policy", "Resolver"]
