"""Experiments that show what each sampler is worth: `python -m experiments list`."""
