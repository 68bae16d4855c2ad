"""Generates words with small models of transformers, compiled and eager, and compares the tokens.

``python tests/support/decoding.py [--only PATTERN] [--doors NAMES] [--caches NAMES] [--ways NAMES]
[--steps N] [--out FILE]`` prints a line of JSON for each case. A model at an entry point with a
cache runs in a process of its own, under a time limit, in one way after the other: later ways find
the graphs of earlier ones. Where eager mode itself fails, the case is "refused".
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import functools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("DISC_CACHE", "0")

import apart
import disc
import torch
import transformers

#: Kinds of outcome, the best first.
KINDS = ("same", "refused", "differs", "error")
LENGTH, VOCABULARY, FEATURES = 7, 100, 16
_SMALL = {
    "vocab_size": VOCABULARY, "num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4,
    "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
_OLD = {"vocab_size": VOCABULARY, "n_layer": 2, "n_embd": 48, "n_head": 4, "n_positions": 512}
_PAIR = {
    "vocab_size": VOCABULARY, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "max_position_embeddings": 512, "pad_token_id": 0, "decoder_start_token_id": 2,
}  # fmt: skip
_T5 = {"vocab_size": VOCABULARY, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_WHISPER = {
    **_PAIR, "num_mel_bins": FEATURES, "max_source_positions": 20, "max_target_positions": 512,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A model with random weights, and the arguments that its text begins with."""

    name: str
    fields: dict
    prompt: Callable[[int], dict]

    def build(self) -> torch.nn.Module:
        torch.manual_seed(0)
        kind = getattr(transformers, self.name)
        model = kind(kind.config_class(**self.fields)).eval()
        for p in model.parameters():
            if p.dim() > 1:
                # Else every word is the same.
                torch.nn.init.normal_(p, std=1.5 * p.shape[-1] ** -0.5)
        config = model.generation_config
        config.eos_token_id, config.pad_token_id = None, 0
        config.forced_eos_token_id = config.forced_bos_token_id = None
        return model


def masked_text(batch: int) -> dict:
    """Words, and a mask: the second row begins with two that do not count."""
    mask = torch.ones(batch, LENGTH, dtype=torch.long)
    mask[1:, :2] = 0
    return {"input_ids": torch.randint(3, VOCABULARY, (batch, LENGTH)), "attention_mask": mask}


def sound(batch: int) -> dict:
    return {"input_features": torch.randn(batch, FEATURES, 40)}


def _decoder(name: str, base=_SMALL, **fields) -> Family:
    return Family(name, {**base, **fields}, masked_text)


FAMILIES = {
    "gpt2": _decoder("GPT2LMHeadModel", _OLD),
    "gpt-neox": _decoder("GPTNeoXForCausalLM"),
    "opt": _decoder("OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=48),
    "bloom": _decoder("BloomForCausalLM", {**_OLD, "hidden_size": 48}),
    "llama": _decoder("LlamaForCausalLM"),
    "mistral": _decoder("MistralForCausalLM", sliding_window=16),
    "qwen2": _decoder("Qwen2ForCausalLM"),
    "qwen3": _decoder("Qwen3ForCausalLM", head_dim=12),
    "gemma2": _decoder("Gemma2ForCausalLM", head_dim=12, sliding_window=16),
    "phi": _decoder("PhiForCausalLM"),
    "falcon": _decoder("FalconForCausalLM"),
    "stablelm": _decoder("StableLmForCausalLM"),
    "t5": _decoder("T5ForConditionalGeneration", _T5, decoder_start_token_id=0),
    "bart": _decoder("BartForConditionalGeneration", _PAIR),
    "mbart": _decoder("MBartForConditionalGeneration", _PAIR),
    "marian": _decoder("MarianMTModel", _PAIR),
    "whisper": Family("WhisperForConditionalGeneration", _WHISPER, sound),
}


def _compile_module(model):
    model.compile(backend="disc", dynamic=True, options={"progress": False})
    return model


def _compile_forward(model):
    # Dynamo finds by itself which sizes differ.
    model.forward = torch.compile(model.forward, backend="disc", options={"progress": False})
    return model


def _optimize(model):
    return disc.optimize(model, options=disc.Options(progress=False))


DOORS = {"compile": _compile_module, "forward": _compile_forward, "optimize": _optimize}
CACHES = {"dynamic": None, "static": "static"}
#: The batch of a way, and its arguments.
WAYS = {
    "greedy": (2, {"do_sample": False}),
    "sample": (2, {"do_sample": True}),
    "beam": (2, {"do_sample": False, "num_beams": 3}),
    "assisted": (1, {"do_sample": False}),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="names of models, as patterns with a | between")
    parser.add_argument("--doors", default=",".join(DOORS))
    parser.add_argument("--caches", default=",".join(CACHES))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--steps", type=int, default=200, help="new words of a text")
    parser.add_argument("--limit", type=float, default=300, help="CPU seconds of a process")
    parser.add_argument("--out", help="a file that the lines are added to")
    chosen = parser.parse_args()
    counts = dict.fromkeys(KINDS, 0)
    for name in FAMILIES:
        if not any(fnmatch.fnmatch(name, p) for p in chosen.only.split("|")):
            continue
        for door in chosen.doors.split(","):
            for cache in chosen.caches.split(","):
                work = functools.partial(tried, name, door, cache, chosen.ways.split(","), chosen.steps)
                found = apart.run(work, chosen.limit)
                for row in found.pop("rows", [found]):
                    counts[row["kind"]] += 1
                    apart.noted({"model": name, "door": door, "cache": cache, **row}, chosen.out)
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()), file=sys.stderr)
    return bool(counts["differs"] or counts["error"])


def tried(name: str, door: str, cache: str, ways: list[str], steps: int) -> dict:
    """The rows of a model at an entry point with a cache."""
    # All models of transformers share the wrapper that dynamo counts recompilations of.
    torch._dynamo.config.recompile_limit = 64
    # Beyond it, eager mode must not serve unseen.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    model = FAMILIES[name].build()
    expected = copy.deepcopy(model)
    fast = DOORS[door](model)
    rows = []
    for way in ways:
        if way == "assisted" and cache == "static":
            # transformers has no such combination.
            continue
        start = time.perf_counter()
        row = _compared(FAMILIES[name], fast, expected, door, CACHES[cache], way, steps)
        rows.append({"way": way, **row, "seconds": round(time.perf_counter() - start, 1)})
    return {"rows": rows}


def _compared(family: Family, fast, expected, door: str, cache, way: str, steps: int) -> dict:
    batch, arguments = WAYS[way]
    arguments = {"max_new_tokens": steps, "cache_implementation": cache, **arguments}
    torch.manual_seed(1)
    arguments.update(family.prompt(batch))
    ours = theirs = {}
    if way == "assisted":
        theirs = {"assistant_model": _assistant(expected)}
        ours = {"assistant_model": DOORS[door](_assistant(expected))}
    try:
        wanted = _generated(expected, {**arguments, **theirs})
    except Exception as error:
        return {"kind": "refused", "note": apart.words(error)}
    try:
        got = _generated(fast, {**arguments, **ours})
    except Exception as error:
        return {"kind": "error", "note": apart.words(error)}
    row = {"kind": "same", "tokens": wanted.numel(), "distinct": wanted.unique().numel()}
    if not torch.equal(got, wanted):
        first = None
        if got.shape == wanted.shape:
            first = int((got != wanted).any(0).nonzero()[0])
        row = {**row, "kind": "differs", "first": first}
    try:
        return {**row, **_described(disc.report(fast).to_dict())}
    except disc.Error as error:
        return {**row, "kind": "error", "note": apart.words(error)}


def _assistant(model) -> torch.nn.Module:
    """A model that says nearly the same as ``model``, which is eager."""
    other = copy.deepcopy(model)
    torch.manual_seed(2)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1 + 0.05 * torch.randn_like(p))
    return other


def _generated(model, arguments: dict) -> torch.Tensor:
    torch.manual_seed(3)
    arguments = {name: value for name, value in arguments.items() if value is not None}
    found = model.generate(**arguments)
    return found if isinstance(found, torch.Tensor) else found["sequences"]


def _described(report: dict) -> dict:
    rows = report["fallbacks"]
    return {
        "coverage": report["coverage"],
        "graphs": len(report.get("graphs") or ()) or report["signatures"],
        "calls": report["calls"],
        "breaks": [one["reason"][:120] for one in report.get("graph_breaks", ())],
        "variants": report["variants"],
        "peak_arena_bytes": report["peak_arena_bytes"],
        "fallbacks": [f"{r['op']}: {r['reason'].splitlines()[0][:160]} x{r['calls']}" for r in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
