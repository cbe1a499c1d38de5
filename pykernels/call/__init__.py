"""Calls of functions: converts and checks arguments, caches calls, and makes results."""
