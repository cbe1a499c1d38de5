"""The rules of declared functions of layer two, a module for each family.

`kernels/FAMILY/NAME.op.toml` declares the functions and names the rule of each. A rule takes the
call, its tensors and its options, and returns the result and the views for the kernel. Everything
else (signature, docs, conversions, cached calls) comes from the declaration.
"""
