"""Plans of the kernels with several bodies or passes: pure functions, testable without a GPU."""
