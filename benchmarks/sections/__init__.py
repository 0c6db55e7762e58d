"""The sections of docs/performance.md as data: what is measured, where it is kept, how it is shown."""
