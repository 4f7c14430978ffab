"""Compiled programs and the phases that run them."""
