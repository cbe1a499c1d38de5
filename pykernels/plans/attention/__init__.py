"""Plans of the family attention."""
