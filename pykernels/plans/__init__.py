"""Plans of the kernels: pure functions from views to steps, which tests call without a GPU."""
