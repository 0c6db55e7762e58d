"""Fetching: the resource at a URL, whole and decompressed, under the guard and within every limit.

What is heavy (httpcore2, h2, brotli) is imported with the first fetch.
"""

from tabane.reader.fetching.interface import Policy, Resolver
from tabane.reader.fetching.page_fetcher import PageFetcher

__all__ = ["PageFetcher", "Policy", "Resolver"]
