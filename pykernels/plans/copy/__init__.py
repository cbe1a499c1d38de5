"""Plans of the family copy."""
