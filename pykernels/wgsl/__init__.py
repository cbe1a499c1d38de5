"""Writes the head of a WGSL text, by pure Python code, for the build and at run time; reads the
rows of operations and the installed texts."""
