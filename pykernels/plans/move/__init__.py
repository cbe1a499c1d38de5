"""Plans of the family move."""
