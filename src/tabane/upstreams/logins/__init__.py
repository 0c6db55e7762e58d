"""Logins at servers with OAuth: discovery, clients, tokens, and the requests that carry them."""
