"""Plans of the family fill."""
