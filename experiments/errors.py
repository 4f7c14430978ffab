"""What the command line reports as one sentence instead of a traceback."""


class ExperimentError(Exception):
    """A mistake of the user or a missing resource; the message says what to do."""
