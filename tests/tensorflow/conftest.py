"""These tests need TensorFlow, which the project's environment does not have: `make
test-tensorflow` runs them in one that has.
"""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["*.py"]
