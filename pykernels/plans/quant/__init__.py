"""Plans of the family quant."""
