"""Tests of code mode."""
