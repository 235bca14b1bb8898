"""Mutation testing of the pure modules: change one thing, and see whether a test notices."""
