"""The paradigms, each compiled to a machine."""
