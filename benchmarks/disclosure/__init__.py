"""Tool disclosure: what `tabane bench disclosure` measures, as a section of the performance page."""
