"""The pages, one module for each area."""
