"""Gives a compiled model to a pipeline of transformers, which takes it for the original."""

import disc
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, pipeline

TEXTS = [
    "a fine day",
    "the film was long and the seats were hard",
    "good",
    "not good , not bad , and over before the rain began",
]

# A tokenizer of the words above and a classifier with random weights: nothing is downloaded.
words = ["[PAD]", "[UNK]", *sorted({word for text in TEXTS for word in text.split()})]
inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]")

torch.manual_seed(0)
config = BertConfig(
    vocab_size=len(words), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
    id2label={0: "bad", 1: "good"},
)  # fmt: skip
model = BertForSequenceClassification(config).eval()

fast = disc.optimize(model)
ours = pipeline("text-classification", model=fast, tokenizer=tokenizer, device="cpu")
theirs = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")

# One text at a time, then batches: every length and batch size is served by the same code.
for batch_size in (1, 2, 4):
    results = ours(TEXTS, batch_size=batch_size)
    for text, result, expected in zip(TEXTS, results, theirs(TEXTS, batch_size=batch_size), strict=True):
        assert result["label"] == expected["label"]
        assert abs(result["score"] - expected["score"]) < 1e-5
        if batch_size == 1:
            print(f"{result['label']:5} {result['score']:.4f}  {text}")

report = disc.report(fast).to_dict()
assert report["coverage"] == 1.0
print(f"{report['calls']} calls, {report['compiles']} compilation(s), {report['kernels']} kernels")
