"""How often does a tool say "done" when the work is not done?  `make false-done` measures it.

Stand-in agents, cheating and honest, each a small shell script, are run by several tools in a
temporary git project.  Afterwards a test that neither tool nor agent could read judges the files
that were delivered:

    false done   the tool exits 0, and the held-out test fails
    missed done  the held-out test passes, and the tool does not exit 0

`model` says what a case is; `cheats`, `honest` and `unseen` hold the cases; `tools` runs them,
`oracle` judges, `report` prints.
"""
