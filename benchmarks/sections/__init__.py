"""The sections of the performance page as data: what is measured, where it is kept, how it is shown."""
