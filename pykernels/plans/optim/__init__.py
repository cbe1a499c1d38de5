"""Plans of the family optim."""
