"""The commands of the command line, one module for each group, each with a function ``register(subparsers)``."""
