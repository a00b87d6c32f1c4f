"""What resolution is made of: instructions with branches taken and registers known, proofs of what they state."""
