"""Pages that are nothing without their programs, shown by an installed Chromium under the guard.

A fresh browser is started for each page and is gone after it. It reaches nothing by itself: every connection
goes through a gate on loopback that asks the guard, and opens what the guard lets through. What it makes of
the page comes back as HTML, over a socket that no other program has.

rendering   one page at a time, and who waits for it
page        what one page needs, put together and taken apart again
limits      what one page may take
browser     a browser that runs, and how it is ended
keeper      the process beside it that leaves nothing behind, whatever becomes of the hub
finding     where one is installed
flags       the command line that takes everything from it that it does not need
talk        the DevTools protocol over a socket
gate        the only way out: judged, counted, limited
visit       one page, from its address to its HTML
snapshot    the document as HTML, shadow trees in their places
"""

from tabane.reader.rendering.chromium import RenderLimits
from tabane.reader.rendering.renderer import PageRenderer

__all__ = ["PageRenderer", "RenderLimits"]
