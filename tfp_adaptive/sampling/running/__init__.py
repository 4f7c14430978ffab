"""The programs run: chunk by chunk, with progress, until there are enough draws."""
