"""The hub as a resource server of OAuth 2.1: tokens of an authorization server as identities of callers.

Sources: RFC 6750 (bearer tokens), 7662 (introspection), 8414 (discovery), 8707 (resources), 9068 (JWT access
tokens), 9728 (metadata of a resource), and the authorization page of MCP from 2025-06-18 on.
"""
