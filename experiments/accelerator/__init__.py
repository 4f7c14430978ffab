"""Steps on an accelerator beside a CPU, up to thousands of chains.

TensorFlow hands a step to XLA as a program in StableHLO, and JAX's XLA runs the same program. So
`python -m experiments run accelerator` writes the programs where this package is installed, and
`measure.py` runs them where there is an accelerator with JAX, and no TensorFlow.
"""
