"""From the name of a loop to a loop that is loaded, checked and settled."""
