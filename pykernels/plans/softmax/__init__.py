"""Plans of the family softmax."""
