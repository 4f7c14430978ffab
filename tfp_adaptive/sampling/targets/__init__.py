"""Targets and starts: whatever `sample` is given, as a density of unconstrained parts."""
