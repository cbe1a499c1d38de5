"""The gradient rules of kernels: FAMILY.py has a function of each kernel's name.

A rule takes a `pykernels.tape.Taped`. It asks for the gradients of outputs (`dy`) and for the
tensors of the call (`saved`), and gives the gradients of inputs (`give`). Its own tape does not
record its calls.
"""
