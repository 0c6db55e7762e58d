"""`tabane bench`: measurements that prove what disclosure does, with a hub in a temporary home."""
