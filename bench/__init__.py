"""Benchmarks. They need the checkout; what an installed wheel can measure lives in pykernels."""
