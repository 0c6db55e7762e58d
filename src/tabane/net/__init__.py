"""The way out: HTTP connections to servers, with proxies, TLS and routes."""
