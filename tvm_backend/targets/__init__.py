"""Targets, with the names of TVM's UMA: a network and targets in, regions of steps and the host part as data out."""
