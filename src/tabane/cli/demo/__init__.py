"""`tabane demo`: real servers in a temporary home, and steps that use them as an assistant does."""
