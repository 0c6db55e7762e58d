"""Process of a hub: start, lock, log, administration and end."""

MODEL_FILE = "reembed"
"""Under the home, while texts are being embedded again: it holds the model that they are embedded with."""
