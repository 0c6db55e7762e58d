"""The scanner of definitions: orders to the model, hidden text, and names that deceive. Pure, and offline."""
