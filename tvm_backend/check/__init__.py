"""Is the accelerator right? A compiled network and inputs in, a comparison of outputs and of each layer out."""
