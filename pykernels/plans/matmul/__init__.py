"""Plans of the family matmul."""
