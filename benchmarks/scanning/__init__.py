"""Quality and cost of the scanner of definitions."""
