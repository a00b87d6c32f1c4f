"""A resolved stream in, one expression for each of its results out, or what stays a loop, and why."""
