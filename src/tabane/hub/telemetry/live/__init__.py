"""The activity of a hub: events, the last calls, and their number and times by the second."""
