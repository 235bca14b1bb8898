"""The content of a project's tree: snapshots, protected paths, putting back, clean copies.

Start at `store.TreeStore`; what it holds is compared and read in `stored`; the clean copy is in `copies`.
"""
