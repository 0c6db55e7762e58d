"""Adapters of single sites, and the one for any page."""
