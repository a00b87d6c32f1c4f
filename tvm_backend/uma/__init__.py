"""TVM's UMA (universal modular accelerator interface) on Relax: the base class of targets and the partitioner."""
