"""Pure functions on text: cutting, encodings, similar names."""
