"""Effects: what a run does to the computer it runs on."""
