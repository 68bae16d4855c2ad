"""Generates text with a cache of keys and values: ``generate`` of transformers runs as it is, its
steps are compiled.
"""

import disc
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, bos_token_id=1, eos_token_id=None, pad_token_id=0,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
fast = disc.optimize(model)

for batch, length in ((1, 5), (3, 11), (2, 1)):
    prompt = torch.randint(2, 500, (batch, length))
    mask = torch.ones_like(prompt)
    arguments = {"attention_mask": mask, "max_new_tokens": 12, "do_sample": False}
    tokens = fast.generate(prompt, **arguments)
    assert torch.equal(tokens, model.generate(prompt, **arguments))
    print(f"{batch} prompt(s) of {length:2} words: {tokens[0, length:].tolist()}")

# Sampling draws from torch's generator: the same seed gives eager's tokens.
prompt = torch.randint(2, 500, (2, 7))
arguments = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "do_sample": True, "top_k": 20}
torch.manual_seed(1)
sampled = fast.generate(prompt, **arguments)
torch.manual_seed(1)
assert torch.equal(sampled, model.generate(prompt, **arguments))

report = disc.report(fast).to_dict()
print(f"{report['calls']} steps, {report['signatures']} forms of call, compiled share {report['coverage']}")
