"""A hub as a member of a group: requests for other hubs, and work that they share."""
