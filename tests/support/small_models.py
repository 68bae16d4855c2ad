"""Small models with random weights, saved as those of a hub are: pages name real models, and run
with these.
"""

from __future__ import annotations

from pathlib import Path


def tokenizer(words: str):
    """A tokenizer that knows some words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = {word: i for i, word in enumerate(["[UNK]", "[PAD]", "[EOS]", *words.split()])}
    made = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]"
    )


def sentiment(folder: str) -> None:
    """Saves a classifier of sentences."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(vocab_size=16, n_layers=1, dim=32, hidden_dim=64, n_heads=2)
    _save(DistilBertForSequenceClassification(config), "One It serves sentences of any", folder)


def decoder(folder: str) -> None:
    """Saves a decoder in the form of GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel

    ends = {"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    config = GPT2Config(vocab_size=16, n_layer=1, n_embd=32, n_head=2, n_positions=64, **ends)
    _save(GPT2LMHeadModel(config), "once upon a time there was", folder)


def _save(model, words: str, folder: str) -> None:
    path = Path(folder)
    assert not path.is_absolute()
    model.save_pretrained(path)
    tokenizer(words).save_pretrained(path)
