"""Screens: tables, the live line, colours, and the words for a run."""
