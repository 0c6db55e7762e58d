"""Processes that work for the hub: what is expensive or hostile runs in them, one request at a time.

A :class:`~tabane.workers.pool.Pool` starts them on demand and asks them; ``tabane.workers.serving`` is their
own side.
"""
