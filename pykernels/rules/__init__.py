"""What declared functions of layer two make of their arguments, a module a family.

`kernels/FAMILY/NAME.op.toml` declares the functions and names the rule of each: a function that
gets the call, its tensors and its options, and gives the views that the kernel takes and the
result. All else (signature, texts, conversions, the remembered call) comes from the declaration.
"""
