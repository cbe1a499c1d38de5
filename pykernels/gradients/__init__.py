"""The gradient rules of kernels: FAMILY.py has a function for each kernel, with the kernel's name.

A rule takes a `pykernels.tape.Taped`. It asks for the gradients of outputs (`dy`) and for the
tensors of the call (`saved`), and gives the gradients of inputs (`give`). The tape whose gradient
is computed does not record the calls of a rule.
"""
