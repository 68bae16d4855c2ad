"""Says how many threads compiled code uses."""

from __future__ import annotations

import os

import torch

from ...core.options import Options


def threads_of(options: Options) -> int | None:
    """The most threads of a call: the option, else DISC_NUM_THREADS (None: the runtime reads it),
    else what torch uses now.
    """
    if options.threads or os.environ.get("DISC_NUM_THREADS"):
        return options.threads
    return torch.get_num_threads()
