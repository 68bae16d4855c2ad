"""``python -m disc.torch.coverage``."""

import sys

from .page import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
