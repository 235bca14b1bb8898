"""`${namespace.path}` in the texts of a loop: parse, splice, render.  Pure."""
