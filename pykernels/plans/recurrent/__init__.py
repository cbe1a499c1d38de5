"""Plans of the family recurrent."""
