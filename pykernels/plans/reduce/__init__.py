"""Plans of the family reduce."""
