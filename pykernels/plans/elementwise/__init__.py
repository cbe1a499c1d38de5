"""Plans of the family elementwise, and kernels that are made of expressions while a program runs.

`language` parses a text into nodes, `resolve` gives each node its dtype, `program` makes a kernel
of the nodes, `tiles` decides which calls are cut into tiles.
"""
