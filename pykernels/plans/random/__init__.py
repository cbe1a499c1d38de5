"""Plans of the family random."""
