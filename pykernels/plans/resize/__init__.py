"""Plans of the family resize."""
