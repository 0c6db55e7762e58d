"""Processes that do expensive or untrusted work for the hub.

The workers of a :class:`~tabane.workers.pool.Pool` answer one request at a time each, under limits. A
:class:`~tabane.workers.resident.Resident` is one worker that loads something once and answers many requests
at the same time. Both start processes on demand. ``tabane.workers.serving`` runs in the processes.
"""
