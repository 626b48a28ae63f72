"""The report of a comparison: what a folder's registration and records say, as a page and as Markdown."""
