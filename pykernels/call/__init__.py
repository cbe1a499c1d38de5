"""How a call goes: arguments are converted and checked once, then remembered; results are made."""
