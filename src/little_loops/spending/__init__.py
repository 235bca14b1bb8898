"""What agents cost, for all runs of a user together."""
