"""Plans of the family linalg."""
