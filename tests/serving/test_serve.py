"""The server: the Open Inference Protocol over a local port."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import threading
import time

import disc
import numpy as np
import pytest
import torch
from deployment import affine, cargo_build, needs_cargo

pytestmark = needs_cargo


class Lookup(torch.nn.Module):
    """Fails for an index that is out of range."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(10, dtype=torch.float32).reshape(5, 2))

    def forward(self, ids, mask):
        rows = torch.nn.functional.embedding(ids, self.table)
        return rows * mask.unsqueeze(-1), ids


@pytest.fixture(scope="module")
def program():
    (program,) = cargo_build("--package", "disc-serve", "--bin", "disc-server")
    return program


class Server:
    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.log: list[str] = []
        while not self.log or " at http://" not in self.log[-1]:
            line = process.stderr.readline()
            assert line, "".join(self.log)
            self.log.append(line)
        host, port = self.log[-1].strip().rsplit("/", 1)[1].split(":")
        self.address = (host, int(port))
        threading.Thread(target=lambda: self.log.extend(process.stderr), daemon=True).start()

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()
        finally:
            connection.close()

    def json(self, method, path, body=None):
        status, _, answer = self.request(method, path, None if body is None else json.dumps(body))
        return status, json.loads(answer)

    def infer(self, model, **inputs):
        names = {"float32": "FP32", "int64": "INT64", "bool": "BOOL"}
        tensors = [
            {"name": name, "shape": value.shape, "datatype": names[str(value.dtype)], "data": value.tolist()}
            for name, value in inputs.items()
        ]
        return self.json("POST", f"/v2/models/{model}/infer", {"id": "7", "inputs": tensors})

    def metric(self, row):
        text = self.request("GET", "/metrics")[2].decode()
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(row)), 0.0)

    def open(self, data: bytes) -> socket.socket:
        client = socket.create_connection(self.address, timeout=60)
        client.sendall(data)
        return client


@pytest.fixture
def serve(program):
    with contextlib.ExitStack() as stack:

        def start(package, *options):
            command = [program, package, "--port", "0", *options]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            return Server(process)

        yield start


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return affine(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def lookup(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "lookup.discpkg"
    disc.export(Lookup().eval(), (torch.tensor([[1, 2, 3]] * 2), torch.ones(2, 3, dtype=torch.bool)), path)
    return path


def _x(rows: int) -> np.ndarray:
    return np.arange(rows * 8, dtype=np.float32).reshape(rows, 8)


def test_the_protocol(serve, package):
    server = serve(package)
    assert server.json("GET", "/v2")[1]["extensions"] == ["binary_tensor_data"]
    assert server.json("GET", "/v2/health/live") == (200, {"live": True})
    assert server.json("GET", "/v2/health/ready") == (200, {"ready": True})
    status, metadata = server.json("GET", "/v2/models/affine")
    assert status == 200
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
    assert server.json("GET", "/v2/models/affine/versions/1/ready") == (
        200,
        {"name": "affine", "ready": True},
    )
    for rows in (1, 5, 0):
        status, answer = server.infer("affine", x=_x(rows))
        assert status == 200, answer
        assert (answer["model_name"], answer["id"]) == ("affine", "7")
        (output,) = answer["outputs"]
        assert (output["datatype"], output["shape"]) == ("FP32", [rows, 8])
        np.testing.assert_array_equal(np.array(output["data"], np.float32).reshape(rows, 8), 2 * _x(rows) + 1)
    assert server.metric('disc_requests_total{model="affine",status="200"}') == 3
    assert server.metric("disc_request_duration_seconds_count") == 3


def test_binary_tensors(serve, lookup):
    server = serve(lookup)
    ids, mask = np.array([[1, 4, 0]]), np.array([[True, False, True]])
    request = {
        "inputs": [
            {"name": "ids", "shape": [1, 3], "datatype": "INT64", "parameters": {"binary_data_size": 24}},
            {"name": "mask", "shape": [1, 3], "datatype": "BOOL", "data": [[True, False, True]]},
        ],
        "parameters": {"binary_data_output": True},
    }
    head = json.dumps(request).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    status, headers, body = server.request("POST", "/v2/models/lookup/infer", head + ids.tobytes(), headers)
    assert status == 200, body
    assert headers["content-type"] == "application/octet-stream"
    length = int(headers["inference-header-content-length"])
    first, second = json.loads(body[:length])["outputs"]
    assert first["parameters"] == {"binary_data_size": 24}
    rows = np.frombuffer(body[length : length + 24], np.float32).reshape(first["shape"])
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(rows, table[ids] * mask[..., None])
    np.testing.assert_array_equal(np.frombuffer(body[length + 24 :], np.int64).reshape(second["shape"]), ids)


def test_requests_that_do_not_fit(serve, package):
    server = serve(package, "--max-body", "4096")
    tensor = {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [0] * 8}

    def refused(**changes):
        status, answer = server.json("POST", "/v2/models/affine/infer", {"inputs": [tensor | changes]})
        assert status == 400
        assert answer["error"].startswith(answer["code"])
        return answer["error"]

    assert "no input `y`: it has `x`" in refused(name="y")
    assert "has datatype FP32, INT64 came" in refused(datatype="INT64")
    assert "[1, 7] came" in refused(shape=[1, 7])
    assert "16 elements by its shape [2, 8], 8 came" in refused(shape=[2, 8])
    assert "too large" in refused(shape=[1 << 62, 8])
    assert "a list of f32" in refused(data=["0"])
    assert "lacks some of its 32 bytes" in refused(data=None, parameters={"binary_data_size": 32})
    assert "is missing" in server.json("POST", "/v2/models/affine/infer", {"inputs": []})[1]["error"]
    path = "/v2/models/affine/infer"
    assert server.request("POST", path, b"garbage")[0] == 400
    assert server.request("POST", path, b"[" * 4000)[0] == 400
    assert server.request("POST", path, b"{}", {"Inference-Header-Content-Length": "99"})[0] == 400
    assert server.request("POST", path, b" " * 5000)[0] == 413
    assert server.request("GET", path)[0] == 405
    assert server.json("GET", "/v2/models/other")[0] == 404
    assert server.json("GET", "/nothing")[0] == 404
    assert server.infer("affine", x=_x(1))[0] == 200


def test_requests_of_the_same_sizes_are_joined(serve, lookup):
    server = serve(lookup, "--max-batch", "8", "--max-delay-ms", "300")

    def ask(size, index):
        return server.infer("lookup", ids=np.full((1, size), index), mask=np.ones((1, size), bool))

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for _ in range(3):  # The first joined runs are compared with separate runs.
            assert {status for status, _ in pool.map(ask, [3] * 4, range(4))} == {200}
        before = server.metric("disc_request_batches_total")
        answers = [pool.submit(ask, size, index) for size in (3, 4) for index in range(4)]
        bad = pool.submit(ask, 3, 99)
        for answer, index in zip(answers, [*range(4)] * 2, strict=True):
            status, answer = answer.result()
            assert status == 200, answer
            rows, ids = answer["outputs"]
            assert rows["data"] == [2.0 * index, 2.0 * index + 1] * rows["shape"][1]
            assert set(ids["data"]) == {index}
        status, answer = bad.result()
    assert status == 400
    assert "99" in answer["error"]
    # Two lanes; the one with the bad index ran again, each request separately.
    assert server.metric("disc_request_batches_total") - before <= 2 + 5 < 9


def test_rows_that_depend_on_each_other_are_not_joined(serve, tmp_path):
    class Sums(torch.nn.Module):
        def forward(self, x):
            return x.cumsum(0)

    disc.export(Sums(), (torch.randn(3, 8),), tmp_path / "sums.discpkg")
    server = serve(tmp_path / "sums.discpkg", "--max-batch", "64", "--max-delay-ms", "200")
    inputs = [_x(rows) + rows for rows in (1, 2, 3, 4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for x, (status, answer) in zip(
                inputs, pool.map(lambda x: server.infer("sums", x=x), inputs), strict=True
            ):
                assert status == 200, answer
                np.testing.assert_allclose(answer["outputs"][0]["data"], x.cumsum(0).ravel(), rtol=1e-5)
    assert any("depend on each other" in line for line in server.log)


def test_a_full_queue_refuses_and_sigterm_answers_what_runs(serve, package):
    server = serve(package, "--max-batch", "64", "--max-delay-ms", "1500", "--max-queue", "2")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(server.infer, "affine", x=_x(1)) for _ in range(2)]
        while server.metric("disc_requests_waiting") < 2:
            time.sleep(0.01)
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [0] * 8}]})
        status, headers, answer = server.request("POST", "/v2/models/affine/infer", body)
        assert (status, headers["retry-after"]) == (503, "1"), answer
        server.process.send_signal(signal.SIGTERM)
        assert [answer.result()[0] for answer in waiting] == [200, 200]
    assert server.process.wait(30) == 0
    with pytest.raises(ConnectionRefusedError):
        server.open(b"")


def _binary(rows: int) -> bytes:
    """Returns a request whose tensors, and those of its answer, are binary."""
    size = {"binary_data_size": rows * 32}
    tensor = {"name": "x", "shape": [rows, 8], "datatype": "FP32", "parameters": size}
    json_bytes = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    head = "POST /v2/models/affine/infer HTTP/1.1\r\nhost: x\r\n"
    head += f"content-length: {len(json_bytes) + rows * 32}\r\ninference-header-content-length: {len(json_bytes)}\r\n\r\n"
    return head.encode() + json_bytes + bytes(rows * 32)


def test_slow_clients_and_garbage_cost_nobody_else_anything(serve, package):
    server = serve(package, "--client-timeout", "1")
    head = b"POST /v2/models/affine/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n"
    slow = [server.open(head) for _ in range(20)]
    cut = [server.open(head + b"\r\n{") for _ in range(20)]
    garbage = [server.open(data) for data in (b"\x00\xff" * 500, b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 1000)]
    gone = [server.open(head + b"\r\n{") for _ in range(20)]
    for client in gone:
        client.close()
    lazy = server.open(_binary(250_000))
    start = time.monotonic()
    assert server.infer("affine", x=_x(2))[0] == 200
    assert time.monotonic() - start < 1
    for client in cut:
        assert b" 408 " in client.recv(4096)
    for client in [*slow, *garbage]:
        with contextlib.suppress(ConnectionResetError):
            while client.recv(4096):
                pass
    assert server.infer("affine", x=_x(2))[0] == 200
    assert server.json("GET", "/v2/health/ready")[0] == 200
    time.sleep(3)  # The client that takes no answer is disconnected.
    received = 0
    with contextlib.suppress(ConnectionResetError):
        while data := lazy.recv(1 << 20):
            received += len(data)
    assert received < 250_000 * 32


class Step(torch.nn.Module):
    def forward(self, x, cache):
        cache.add_(x)
        return cache * 2


def test_a_server_that_cannot_start_says_why(program, package, tmp_path):
    def refused(*arguments):
        done = subprocess.run(
            [program, *arguments, "--port", "0"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        return done.stderr

    assert "error[E0901]" in refused(tmp_path / "none.discpkg")
    assert "error[E0904]" in refused(package, "--entry", "other")
    assert "error[E0700]" in refused(package, "--device", "cuda:7")
    disc.export(Step(), (torch.randn(3, 8), torch.zeros(3, 8)), tmp_path / "step.discpkg")
    assert "writes to its input `cache`" in refused(tmp_path / "step.discpkg")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [program, package, "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "cannot be used" in done.stderr) == (1, True)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_the_address_ends_it_in_order(serve, package, stop):
    for _ in range(5):
        process = serve(package).process
        process.send_signal(stop)
        assert process.wait(timeout=30) == 0
