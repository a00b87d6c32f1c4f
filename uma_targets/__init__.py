"""UMA targets, one package or module each; :mod:`tvm_backend.uma.registry` finds them by name."""
