"""Runs on disk: their files, claims and history, and how they look from outside."""
