"""Names the lines of Python that ask about sizes,
and tells code of a model from code of torch and disc.
"""

from __future__ import annotations

import linecache
import os

import torch

import disc

#: The folders of torch and of this package: code below them is not the model's.
TORCH = os.path.dirname(torch.__file__) + os.sep
DISC = os.path.dirname(disc.__file__) + os.sep
#: A longer line of the model is cut in a message.
_QUOTED = 80

#: A file and a line.
Place = tuple[str, int]


def written(place: Place) -> str:
    """Spells a line of the model for a message: ``model.py:12: `if x.shape[0] == 1:` ``."""
    filename, line = place
    code = linecache.getline(filename, line).strip()
    code = code if len(code) <= _QUOTED else f"{code[:_QUOTED]}..."
    return f"{os.path.basename(filename)}:{line}" + (f": `{code}`" if code else "")
