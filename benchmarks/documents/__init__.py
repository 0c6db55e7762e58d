"""The document store, asked as its clients ask it."""
