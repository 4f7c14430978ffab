"""Where the rows of a run are kept: in memory or in a checkpoint."""
