"""How a call of layer two goes: arguments are converted and checked once, then remembered."""
