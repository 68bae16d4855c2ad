"""Serves a compiled model with FastAPI: each request has as many texts, of any length, as it likes.

Run alone it asks itself; ``uvicorn fastapi_server:app`` in this folder serves on a port.
"""

import zlib

import disc
import torch
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel


class Encoder(torch.nn.Module):
    """The mean over the words of a text, after one layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(1000, 32, padding_idx=0)
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = words == 0
        states = self.layer(self.table(words), src_key_padding_mask=hidden)
        return states.masked_fill(hidden[..., None], 0).sum(1) / (~hidden).sum(1, keepdim=True)


def words_of(texts: list[str]) -> torch.Tensor:
    """A number for each word, padded with zeros."""
    rows = [[1 + zlib.crc32(word.encode()) % 999 for word in text.split()] or [1] for text in texts]
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


class Request(BaseModel):
    texts: list[str]


torch.manual_seed(0)
model = Encoder().eval()
fast = disc.optimize(model, words_of(["one text", "another one"]))
app = FastAPI()


@app.post("/embed")
def embed(request: Request) -> list[list[float]]:
    with torch.no_grad():
        return fast(words_of(request.texts)).tolist() if request.texts else []


if __name__ == "__main__":
    client = TestClient(app)
    for texts in (["hello"], ["a b c", "d"], ["a longer text than those before " * 5] * 3):
        answer = client.post("/embed", json={"texts": texts})
        assert answer.status_code == 200
        vectors = torch.tensor(answer.json())
        torch.testing.assert_close(vectors, model(words_of(texts)).detach(), atol=1e-5, rtol=1e-4)
        print(f"{len(texts)} text(s): {vectors.shape[1]} numbers each")
    assert client.post("/embed", json={"texts": 5}).status_code == 422
