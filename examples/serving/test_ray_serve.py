"""The Ray Serve deployment in examples/, on a cluster of two nodes in this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-serving installs it")

SERVE = Path(__file__).with_name("ray_serve.py")
CLIENTS = 4
SECONDS = 15.0


@pytest.fixture
def package() -> str:
    """A package of a sentence encoder; DISC_TEST_PACKAGE names one where there is no torch."""
    return os.environ["DISC_TEST_PACKAGE"]


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def _asked(url: str, ids: list) -> dict:
    request = urllib.request.Request(url, json.dumps({"inputs": {"ids": ids}}).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_requests_are_served_while_a_replica_is_killed(cluster, package):
    from ray import serve
    from ray.util.state import list_actors

    sys.path.insert(0, str(SERVE.parent))
    spec = importlib.util.spec_from_file_location("ray_serve", SERVE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ray_serve"] = module
    spec.loader.exec_module(module)
    fixed = module.Model.options(autoscaling_config=None, num_replicas=3)
    serve.run(fixed.bind(package), name="sentence")
    url = "http://127.0.0.1:8000/"
    expected = np.array(_asked(url, [[3, 3]])["outputs"]["output0"])
    wrong, served = [], []
    stop = time.monotonic() + SECONDS

    def client(seed: int) -> None:
        random = np.random.default_rng(seed)
        while time.monotonic() < stop:
            count = int(random.integers(1, 9))
            try:
                answer = _asked(url, [[3] * count])
            except (urllib.error.URLError, ConnectionError) as error:
                # A request that the dying replica had begun: the client tries again.
                served.append(error)
                continue
            found = np.array(answer["outputs"]["output0"])
            served.append(None)
            if not np.allclose(found, expected, atol=1e-6):
                wrong.append((count, found))

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for one in clients:
        one.start()
    time.sleep(SECONDS / 3)
    replicas = [
        actor for actor in list_actors() if "sentence" in (actor.name or "") and actor.state == "ALIVE"
    ]
    killed = next(actor for actor in replicas if "Model" in actor.name)
    os.kill(killed.pid, signal.SIGKILL)
    for one in clients:
        one.join()
    assert not wrong
    lost = sum(error is not None for error in served)
    assert len(served) > 20
    assert lost <= 8, f"{lost} of {len(served)} requests were lost with one replica"
    assert "error" in _asked(url, [[99]])
