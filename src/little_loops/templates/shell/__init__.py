"""Where a value may stand in a shell script without becoming code."""
