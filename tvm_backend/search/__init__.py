"""Searches among candidates, each a network (or several) on a machine: objectives, samplers, a store, workers."""
