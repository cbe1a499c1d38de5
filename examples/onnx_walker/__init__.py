"""What examples/onnx_model.py is made of: ONNX files as chains of pykernels' functions.

graph.py        what a file is here: nodes, shapes, constants
reading.py      reads a file: shapes inferred, constants folded
fusion.py       batch norms into convolutions, chains into expressions, activations into epilogues
expressions.py  elementwise operations as expressions
nodes.py        all other operations as functions, moves.py those that move elements
patterns.py     what files spell out: layer norms, activations
program.py      runs a graph on a device
checking.py     compares with onnxruntime
weights.py      random weights
"""
