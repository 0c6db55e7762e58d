"""What an assistant feels of a server that misbehaves for another one."""
