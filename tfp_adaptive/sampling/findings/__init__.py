"""What a run leaves behind, and what is to be said of it."""
