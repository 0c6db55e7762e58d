"""What happens in a hub at this moment: events, the last calls, and their number and times by the second."""
