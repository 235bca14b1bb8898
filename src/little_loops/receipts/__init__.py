"""Receipts: a file that states how a run ended and what it checked, which anybody can verify.

`story` collects a run's facts from its events, `statement` writes and reads the file, `chain` binds
it to the event log, `gathering` puts the facts together, `verification` compares a receipt with the
files and the log.
"""
