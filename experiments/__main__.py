"""Entry point of `python -m experiments`."""

import os
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from experiments.cli import main

if __name__ == '__main__':
    sys.exit(main())
