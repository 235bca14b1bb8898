"""Measure what `ll-loop` costs, as ratios to a floor taken in the same run.

A row is one question ("what does `--help` cost?"): a floor, the cheapest program that could answer
it, and ours.  All candidates of a row are run in turn (A B C A B C …), so that a busy machine slows
them alike.  `python -m bench --help` says how to ask.

To add a row: write it in a file of `bench/rows`, and name a new file in `bench/rows/__init__.py`.
"""
