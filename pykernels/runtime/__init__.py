"""What runs plans on a device. Knows Kernels, views and buffers, but no Tensor and no Device."""
