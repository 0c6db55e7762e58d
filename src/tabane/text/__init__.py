"""Pure functions on text: cutting, encodings, names that are nearly right."""
