"""Files of projects and the trust in them."""
