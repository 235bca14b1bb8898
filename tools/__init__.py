"""What the documentation is made and checked with; no part of the package."""
