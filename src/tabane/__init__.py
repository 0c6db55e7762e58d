"""Tabane: one local hub that an AI assistant connects to, once.

Importing the package costs nothing: the bridge starts from here.
"""

__version__ = "0.23.0"
