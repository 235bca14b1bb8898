"""Carry out a run: drive the machine, perform its commands, start and resume runs."""
