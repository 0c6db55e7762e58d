"""The web page: a client of the hub in a browser. Everything it shows or changes passes the door."""
