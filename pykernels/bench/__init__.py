"""The core of the benchmarks: cases, a GPU clock, ceilings, comparison, tables and plots.

It works from an installed wheel. Named shapes and peers (numpy, torch, ONNX Runtime, naive kernels)
live in the checkout's `bench/`, one file per kernel.
"""
