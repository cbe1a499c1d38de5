"""Runs plans on a device. Knows Kernels, views and buffers, but not Tensor and Device."""
