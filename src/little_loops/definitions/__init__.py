"""Find a loop by its name, load and check it, and apply settings."""
