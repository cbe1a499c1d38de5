"""Writes the head of a WGSL text in pure Python, for the build and at run time. Also reads the rows
of operations and the installed texts."""
