"""What the clients and commands of the four original systems check and print, tried on Tabane."""
