"""The benchmark: what a step costs, and what the samplers are worth side by side with others."""
