"""Jitted: loops whose state repeats, multiplied out; transitions that recur, applied again."""
