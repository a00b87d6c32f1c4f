"""UMA targets, one package or module each; :mod:`uma_targets.registry` finds them by name."""
