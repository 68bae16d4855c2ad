"""Whole models of transformers: one compile each, several sizes, against eager.

The example is the least: batch 1, length 1.
"""

from __future__ import annotations

import copy

import disc
import model_check
import pytest
import torch

transformers = pytest.importorskip("transformers")

SMALL = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 64}
WORDS = {**SMALL, "vocab_size": 100}
#: Batch and length.
SHAPES = ((1, 1), (2, 7), (3, 16), (1, 33), (5, 2))


def ids(*shape):
    return torch.randint(0, 90, shape)


def mask(batch: int, length: int):
    """Ones, then zeros: a little fewer ones in each row."""
    kept = [max(1, length - row) for row in range(batch)]
    return (torch.arange(length)[None] < torch.tensor(kept)[:, None]).long()


def words(*names):
    """Arguments by name for a batch and a length."""
    kinds = {"attention_mask": mask, "token_type_ids": lambda *s: torch.randint(0, 2, s)}

    def make(batch, length):
        return (), {name: kinds.get(name, ids)(batch, length) for name in ("input_ids", *names)}

    return make


def bert(**changes):
    return transformers.BertModel(transformers.BertConfig(**{**SMALL, **changes}))


def t5(**changes):
    config = transformers.T5Config(num_layers=2, d_model=48, d_kv=16, num_heads=3, d_ff=64, **changes)
    return transformers.T5EncoderModel(config)


def model_of(name: str, **changes):
    """``BertModel`` with the fields of a ``BertConfig``."""
    kind = getattr(transformers, name)
    return kind(kind.config_class(**{**WORDS, **changes}))


MASKED = words("attention_mask")
MODELS = {
    "bert": (lambda: bert(), words()),
    "bert, eager attention": (lambda: bert(attn_implementation="eager"), MASKED),
    "bert, mask and types": (lambda: bert(), words("attention_mask", "token_type_ids")),
    "bert, 13 heads": (lambda: bert(hidden_size=91, num_attention_heads=13, intermediate_size=67), MASKED),
    "bert, 1 head": (lambda: bert(hidden_size=37, num_attention_heads=1, intermediate_size=1), MASKED),
    "bert, tuple": (lambda: bert(return_dict=False), words()),
    "bert, all states": (lambda: bert(output_hidden_states=True), words()),
    "bert, classes": (lambda: model_of("BertForSequenceClassification"), MASKED),
    "bert, words": (lambda: model_of("BertForMaskedLM"), MASKED),
    "roberta": (lambda: model_of("RobertaModel"), MASKED),
    "distilbert": (
        lambda: transformers.DistilBertModel(
            transformers.DistilBertConfig(n_layers=2, dim=48, n_heads=3, hidden_dim=64)
        ),
        MASKED,
    ),
    "albert": (lambda: model_of("AlbertModel", embedding_size=16), MASKED),
    "electra": (lambda: model_of("ElectraModel", embedding_size=16), MASKED),
    "mpnet": (lambda: model_of("MPNetModel"), MASKED),
    "deberta": (
        lambda: model_of("DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"]),
        MASKED,
    ),
    "deberta, first": (
        lambda: model_of("DebertaModel", relative_attention=True, pos_att_type=["p2c", "c2p"]),
        MASKED,
    ),
    "t5 encoder": (lambda: t5(), MASKED),
    "t5 encoder, gated": (lambda: t5(feed_forward_proj="gated-gelu"), MASKED),
    "gpt2": (
        lambda: transformers.GPT2Model(
            transformers.GPT2Config(n_layer=2, n_embd=48, n_head=3, use_cache=False)
        ),
        MASKED,
    ),
    "gpt2, eager attention": (
        lambda: transformers.GPT2Model(
            transformers.GPT2Config(
                n_layer=2, n_embd=48, n_head=3, use_cache=False, attn_implementation="eager"
            )
        ),
        words(),
    ),
    "llama": (
        lambda: model_of("LlamaModel", num_attention_heads=4, num_key_value_heads=2, use_cache=False),
        MASKED,
    ),
    "mixtral": (
        lambda: model_of(
            "MixtralModel", num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, use_cache=False
        ),
        MASKED,
    ),
    "bloom": (
        lambda: transformers.BloomModel(
            transformers.BloomConfig(vocab_size=100, n_layer=2, hidden_size=48, n_head=4, use_cache=False)
        ),
        MASKED,
    ),
    "deepseek": (
        lambda: model_of(
            "DeepseekV2Model",
            num_attention_heads=4,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=4,
            qk_nope_head_dim=8,
            v_head_dim=12,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            first_k_dense_replace=1,
            use_cache=False,
        ),
        MASKED,
    ),
    "falcon": (lambda: model_of("FalconModel", num_attention_heads=4, use_cache=False), MASKED),
    "bart": (
        lambda: transformers.BartModel(
            transformers.BartConfig(
                vocab_size=100,
                d_model=48,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=3,
                decoder_attention_heads=3,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                use_cache=False,
            )
        ),
        MASKED,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_words(name, compile_module):
    build, make = MODELS[name]
    model_check.one_compile(compile_module, build(), [make(*shape) for shape in SHAPES])


def test_many_experts_take_turns_in_a_loop(compile_module):
    model = model_of(
        "Qwen3MoeModel",
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        num_experts=20,
        moe_intermediate_size=16,
        use_cache=False,
    )
    model_check.one_compile(compile_module, model, [words()(*shape) for shape in SHAPES])


def decoding(model):
    """A step with a cache, for a batch, a length of the cache and a number of new words."""

    def call(batch, held, new):
        with torch.no_grad():
            past = model(input_ids=ids(batch, held), use_cache=True).past_key_values
        seen = torch.ones(batch, held + new, dtype=torch.long)
        return (), {"input_ids": ids(batch, new), "past_key_values": past, "attention_mask": seen}

    return call


CACHED = {"num_attention_heads": 4, "num_key_value_heads": 2}
DECODERS = {
    "bloom": lambda: transformers.BloomModel(
        transformers.BloomConfig(vocab_size=100, n_layer=2, hidden_size=48, n_head=4)
    ),
    "deepseek": lambda: model_of(
        "DeepseekV3Model",
        num_attention_heads=4,
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=12,
        first_k_dense_replace=2,
    ),
    "gpt2": lambda: transformers.GPT2Model(
        transformers.GPT2Config(vocab_size=100, n_layer=2, n_embd=48, n_head=3)
    ),
    "llama": lambda: model_of("LlamaModel", **CACHED),
    "qwen3": lambda: model_of("Qwen3Model", head_dim=12, **CACHED),
    "mistral, sliding": lambda: model_of("MistralModel", sliding_window=8, **CACHED),
    "gemma 2, every other layer sliding": lambda: model_of(
        "Gemma2Model", sliding_window=8, head_dim=12, **CACHED
    ),
}


def check_step(compiled, model, kwargs):
    """Compares a step; ``kwargs`` stay as they are."""
    with torch.no_grad():
        result, expected = compiled(**copy.deepcopy(kwargs)), model(**copy.deepcopy(kwargs))
    model_check.same(result, expected, 2e-5)
    assert result.past_key_values.get_seq_length() == expected.past_key_values.get_seq_length()
    return result, expected


@pytest.mark.parametrize("example", [(1, 1, 1), (2, 14, 2)], ids=str)
def test_a_sliding_window_is_compiled_once_for_what_is_before_and_behind_it(example, compile_module):
    """A window of 8 words: caches within it, at its end and after it, and one that goes on with
    what a call returned.
    """
    model = model_of("MistralModel", sliding_window=8, **{**CACHED, "num_hidden_layers": 1}).eval()
    compiled = compile_module(model, *decoding(model)(*example))
    for shape in ((1, 1, 1), (2, 6, 3), (1, 8, 1), (1, 9, 9)):
        check_step(compiled, model, decoding(model)(*shape)[1])
    ours = theirs = decoding(model)(2, 5, 1)[1]
    for seen in range(7, 11):
        result, _ = check_step(compiled, model, ours)
        with torch.no_grad():
            expected = model(**copy.deepcopy(theirs))
        word, mask = ids(2, 1), torch.ones(2, seen, dtype=torch.long)
        ours, theirs = (
            {"input_ids": word, "past_key_values": r.past_key_values, "attention_mask": mask}
            for r in (result, expected)
        )
    check_step(compiled, model, theirs)


def test_a_cache_of_another_structure_is_an_error_that_says_what_differs(compile_module):
    model = DECODERS["mistral, sliding"]().eval()
    compiled = compile_module(model, *decoding(model)(2, 5, 1))
    others = {
        r"past_key_values is DynamicCache of 3, the example's is DynamicCache of 2": model_of(
            "MistralModel", sliding_window=8, **{**CACHED, "num_hidden_layers": 3}
        ),
        r"past_key_values\.0\.sliding_window is 9, the example's is 8": model_of(
            "MistralModel", sliding_window=9, **CACHED
        ),
        r"past_key_values\.0 is DynamicLayer, the example's is DynamicSlid": DECODERS["llama"](),
    }
    for message, other in others.items():
        _, kwargs = decoding(other)(2, 5, 1)
        with pytest.raises(disc.Error, match=message):
            compiled(**kwargs)


@pytest.mark.parametrize("name", DECODERS)
def test_a_step_with_a_cache(name, compile_module):
    model = DECODERS[name]().eval()
    compiled = compile_module(model, *decoding(model)(3, 5, 1))
    for batch, held, new in ((3, 5, 1), (1, 1, 1), (2, 17, 1), (1, 9, 4)):
        args, kwargs = decoding(model)(batch, held, new)
        with torch.no_grad():
            result, expected = compiled(*args, **copy.deepcopy(kwargs)), model(*args, **kwargs)
        assert model_check.error(result.last_hidden_state, expected.last_hidden_state) <= 2e-5
        ours, theirs = result.past_key_values, expected.past_key_values
        assert ours.get_seq_length() == theirs.get_seq_length() == held + new
        for a, e in zip(ours.layers, theirs.layers, strict=True):
            assert model_check.error(a.keys, e.keys) <= 2e-5
            assert model_check.error(a.values, e.values) <= 2e-5


def images(*shape):
    return (torch.rand(shape),), {}


def test_vit(compile_module):
    model = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **SMALL))
    model_check.one_compile(compile_module, model, [images(b, 3, 32, 32) for b in (1, 3, 2)])


def test_vit_of_any_image(compile_module):
    """Embeddings of positions are resampled to the size of the image;
    DINOv3 rotates by its coordinates.
    """
    config = transformers.DINOv3ViTConfig(image_size=32, patch_size=8, **SMALL)
    shapes = [(1, 3, 40, 48), (2, 3, 32, 32), (3, 3, 64, 8)]
    model_check.one_compile(
        compile_module, transformers.DINOv3ViTModel(config), [images(*shape) for shape in shapes]
    )


@pytest.mark.parametrize("name", ["ViTModel", "Dinov2Model", "CLIPVisionModel"])
def test_images_of_the_size_that_a_model_was_made_for_and_others(name, compile_module):
    """Those keep the embeddings of positions, others resample them: the example has the former."""
    kind = getattr(transformers, name)
    model = kind(kind.config_class(image_size=32, patch_size=8, **SMALL))
    more = {} if name == "Dinov2Model" else {"interpolate_pos_encoding": True}
    shapes = [(2, 3, 32, 32), (1, 3, 32, 48), (3, 3, 64, 8), (1, 3, 16, 64), (2, 3, 33, 35)]
    calls = [((), {"pixel_values": torch.rand(shape), **more}) for shape in shapes]
    model_check.one_compile(compile_module, model, calls)


def test_resnet(compile_module):
    config = transformers.ResNetConfig(depths=[1, 1, 1, 1], embedding_size=8, hidden_sizes=[8, 12, 16, 20])
    shapes = [(1, 3, 64, 64), (2, 3, 65, 96), (1, 3, 33, 47)]
    model_check.one_compile(
        compile_module, transformers.ResNetModel(config), [images(*shape) for shape in shapes]
    )


def test_convnext(compile_module):
    config = transformers.ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 12, 16, 20])
    shapes = [(1, 3, 64, 64), (2, 3, 65, 96)]
    model_check.one_compile(
        compile_module, transformers.ConvNextModel(config), [images(*shape) for shape in shapes]
    )


def test_speech(compile_module):
    config = transformers.Wav2Vec2ConformerConfig(
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        conv_depthwise_kernel_size=7,
        **SMALL,
    )
    shapes = [(1, 400), (2, 333), (1, 801)]
    model_check.one_compile(
        compile_module, transformers.Wav2Vec2ConformerModel(config), [images(*shape) for shape in shapes]
    )
