"""The page of `ll-loop web`: a server on this machine that shows runs and starts commands."""
