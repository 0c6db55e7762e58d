"""The access of people and programs to a hub: keys, profiles, guards and approvals."""
