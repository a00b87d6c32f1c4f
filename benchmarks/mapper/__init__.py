"""How good the plans of targets of one core are."""
