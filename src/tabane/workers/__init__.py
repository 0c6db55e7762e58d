"""Processes that do expensive or untrusted work for the hub, one request at a time.

A :class:`~tabane.workers.pool.Pool` starts them on demand and sends requests; ``tabane.workers.serving``
runs in them.
"""
