"""The rules of declared functions of layer two, a module for each family.

`kernels/FAMILY/NAME.op.toml` declares the functions and names the rule of each. A rule is a
function of the call, its tensors and its options that returns the views for the kernel and the
result. Everything else (signature, docs, conversions, cached calls) comes from the declaration.
"""
