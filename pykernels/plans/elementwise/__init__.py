"""Plans of the family elementwise, and kernels that are made of expressions while a program runs.

`language` parses a text into nodes, `resolve` gives each its dtype, `program` makes a kernel of
them, `tiles` says which calls go through tiles.
"""
