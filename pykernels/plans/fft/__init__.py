"""Plans of the family fft."""
