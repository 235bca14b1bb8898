"""From text to a machine: reading, compiling paradigms, checking.  Pure."""
