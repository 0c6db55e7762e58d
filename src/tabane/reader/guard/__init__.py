"""The guard: which URLs and addresses may be reached, so that the reader opens no way into private networks.

Pure: it takes what was given or resolved and returns a judgement, or raises ReadError. Who connects asks it
of every address, at every hop.
"""

from tabane.reader.guard.addresses import Address, address_of, fault
from tabane.reader.guard.guard import Guard, is_local
from tabane.reader.guard.urls import Target, joined, target

__all__ = ["Address", "Guard", "Target", "address_of", "fault", "is_local", "joined", "target"]
