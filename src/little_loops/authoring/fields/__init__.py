"""The fields a loop file may have, and how each is read."""
