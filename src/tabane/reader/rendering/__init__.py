"""Rendering of pages that need their scripts, in an installed Chromium under the guard.

A fresh browser is started for each page and is gone after it. It reaches nothing on its own: every connection
goes through a proxy on loopback that asks the guard, and opens what the guard lets through. What it makes of
the page comes back as HTML, over a socket that no other program has.

renderer          one page at a time, and the pages that wait
browser_process   what one page needs, started and ended
browser_watchdog  the process that removes everything, whatever becomes of the hub
chromium          where a browser is installed, its command line, the limits of a page
devtools          the DevTools protocol over a socket, and the document as HTML
egress_proxy      the only way out: judged, counted, limited
page_visit        one page, from its URL to its HTML
"""

from tabane.reader.rendering.chromium import RenderLimits
from tabane.reader.rendering.renderer import PageRenderer

__all__ = ["PageRenderer", "RenderLimits"]
