"""Eyeriss v1: row-stationary mapping, emission and UMA target."""
