"""Plans of the family rows."""
