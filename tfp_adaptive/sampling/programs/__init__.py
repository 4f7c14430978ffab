"""A kernel on a target as compiled programs: warm-up and sampling."""
