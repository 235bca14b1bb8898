"""Checks over a whole loop: targets, transitions, templates, captures."""
