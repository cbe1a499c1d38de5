"""How gradients flow back through kernels: FAMILY.py has a function of each kernel's name.

A rule takes a `pykernels.tape.Taped`: it asks for the gradients of outputs (`dy`) and for the
tensors of the call (`saved`), and gives the gradients of inputs (`give`). What it calls is not
recorded.
"""
