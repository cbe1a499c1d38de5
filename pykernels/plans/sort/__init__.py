"""Plans of the family sort."""
