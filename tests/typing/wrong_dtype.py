"""Every line marked `# wrong` must be refused by the type checkers: see test_typing.py."""

import numpy as np

import pykernels as pk

dev = pk.Device()
t = dev.zeros((2, 3), "float32")
dev.empty(3, "float64")  # wrong
dev.full(3, 1, "f8")  # wrong
t.astype("half")  # wrong
pk.astype(t, "complex128")  # wrong
pk.zeros(3, dtype="i8")  # wrong
pk.Device(engine="vulkan")  # wrong
pk.Device.from_wgpu(dev)  # wrong
pk.Tensor.from_buffer(np.ones(3), 3, "float32")  # wrong
pk.kernels.softmax(np.ones(3), t)  # wrong
pk.softmax(t, scale="0.5")  # wrong
pk.softmax(t, out=np.ones(3))  # wrong
pk.sofmax(t)  # wrong
