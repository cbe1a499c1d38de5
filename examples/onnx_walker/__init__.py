"""What examples/onnx_model.py is made of: ONNX files as chains of pykernels' functions.

graph.py        reads a file: shapes, constants folded
fusion.py       batch norms into convolutions, chains into expressions, activations into epilogues
expressions.py  elementwise operations as expressions
nodes.py        all other operations as functions
program.py      runs a graph on a device
checking.py     compares with onnxruntime
weights.py      random weights
"""
