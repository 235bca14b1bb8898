"""The command line: one page per command."""
