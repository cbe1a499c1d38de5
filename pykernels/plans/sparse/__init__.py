"""Plans of the family sparse."""
