"""Code mode: scripts in a sandbox that call tools as functions."""
