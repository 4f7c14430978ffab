"""Parts of a warm-up that stand beside the learning of a kernel."""
