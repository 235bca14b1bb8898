"""Run files, which move a run to another place, and reports about runs."""
