"""The paradigms, each compiled to a machine.

`load` imports the module with the name of the paradigm; the list is `PARADIGMS` in `fields.table`.
"""
