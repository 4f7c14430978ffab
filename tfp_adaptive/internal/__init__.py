"""Numerics that know nothing of MCMC."""
