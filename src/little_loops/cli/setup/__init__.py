"""The verbs that set a project up: init, demo, doctor."""
