"""Plans of the family rope."""
