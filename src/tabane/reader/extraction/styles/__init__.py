"""Style sheets of a page, as far as they decide which text is visible."""
