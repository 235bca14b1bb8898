"""Carry a run out: drive the machine, perform its commands, start and resume runs."""
