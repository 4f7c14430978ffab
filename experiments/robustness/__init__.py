"""Samplers with nothing tuned on the posteriors that people bring, and what is said of them."""
