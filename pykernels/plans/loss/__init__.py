"""Plans of the family loss."""
