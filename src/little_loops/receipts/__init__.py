"""Receipts: what a run can show for its ending, as a file that anybody can check.

`story` tells a run from its events, `statement` writes that down and reads it, `chain` binds it to
the event log, `gathering` collects the facts, `verification` checks a receipt against what is there.
"""
