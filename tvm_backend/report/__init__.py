"""Reports: what every layer costs, where it runs and why, as data, JSON, text tables and CSV."""
