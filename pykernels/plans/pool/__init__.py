"""Plans of the family pool."""
