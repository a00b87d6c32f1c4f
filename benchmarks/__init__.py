"""Benchmarks, in folders by what they measure; ``run.py NAME`` runs one, ``run_all.py`` all."""
