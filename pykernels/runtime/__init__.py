"""Runs plans on a device. It uses Kernels, views and buffers, but not Tensor and Device."""
