"""What instructions cost by themselves, loops of them on one core, and lines of caches: for all candidates at once."""
