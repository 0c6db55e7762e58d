"""Site adapters: pages of single sites by their APIs, and any other page."""
