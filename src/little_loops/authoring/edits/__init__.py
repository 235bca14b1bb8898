"""Edit the text of a loop file without changing anything around the edit."""
