"""UMA targets, one package or module each; :mod:`archloom.tvm_backend.targets.registry` finds them by name."""
