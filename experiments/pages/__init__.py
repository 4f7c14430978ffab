"""Pages of the documentation whose pictures and numbers come from a run."""
