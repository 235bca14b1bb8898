"""Runs on many machines: the same machine, carried out by workers that Temporal connects."""
