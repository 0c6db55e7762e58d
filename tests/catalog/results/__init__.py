"""Tests of kept results."""
