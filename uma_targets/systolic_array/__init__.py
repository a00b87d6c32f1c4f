"""The systolic array: its programs at both levels, and the UMA target."""
