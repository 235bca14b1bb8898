"""The content of a project's tree: snapshots, protected paths, putting back, clean copies.

Start at `store.TreeStore`; the clean copy is in `copies`.
"""
