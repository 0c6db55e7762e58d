"""The process that makes pages of bytes, so that a parser that crashes or swells takes nobody with it."""
