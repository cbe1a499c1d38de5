"""Plans of the family conv."""
