"""Plans of the family scan."""
