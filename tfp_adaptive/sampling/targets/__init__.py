"""Whatever `sample` is given, as a density of unconstrained parts, and where its chains start."""
