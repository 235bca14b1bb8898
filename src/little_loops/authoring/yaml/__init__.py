"""YAML text to nodes that know their line and column."""
