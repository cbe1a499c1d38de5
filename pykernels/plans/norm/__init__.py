"""Plans of the family norm."""
