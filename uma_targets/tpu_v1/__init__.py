"""The UMA target ``tpu_v1``: its description, and how it runs convolutions."""
