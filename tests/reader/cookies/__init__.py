"""Tests of imported cookies."""
