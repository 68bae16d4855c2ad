"""Small models of transformers, with random weights, and the calls that each is tried with.

``tests/support/architectures.py`` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers

Calls = list[dict[str, object]]

#: Batch, length, and if there is a mask: twenty calls.
WORDS = (
    (2, 8, False), (1, 1, False), (1, 5, False), (3, 16, False), (1, 33, False),
    (5, 2, False), (4, 13, False), (2, 64, False), (1, 100, False), (8, 7, False),
    (2, 9, True), (1, 1, True), (1, 17, True), (3, 4, True), (2, 31, True),
    (4, 50, True), (1, 12, True), (6, 3, True), (2, 21, True), (1, 65, True),
)  # fmt: skip
#: Batch, height and width of images of any size.
IMAGES = (
    (1, 64, 64), (2, 64, 64), (3, 64, 96), (1, 96, 64), (1, 65, 64), (2, 67, 81), (1, 128, 128),
    (1, 33, 47), (4, 32, 32), (1, 100, 36), (2, 72, 72), (1, 80, 112), (1, 97, 97), (3, 48, 50),
    (1, 130, 66), (2, 63, 63), (1, 56, 56), (5, 40, 64), (1, 111, 77), (2, 90, 64),
)  # fmt: skip
#: Batch and samples of sound.
SOUNDS = (
    (1, 400), (2, 400), (1, 401), (3, 333), (1, 800), (2, 1001), (1, 999), (4, 640), (1, 512),
    (2, 777), (1, 1600), (1, 350), (5, 420), (1, 1234), (2, 555), (1, 901), (3, 808), (1, 2000),
    (2, 365), (1, 640),
)  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """A model and the calls that it is tried with."""

    kind: str
    build: Callable[[], torch.nn.Module]
    calls: Callable[[], Calls]
    #: The first call is given to ``disc.optimize``.
    has_example: bool = False


def ids(*shape):
    return torch.randint(3, 90, shape)


def mask(batch: int, length: int) -> torch.Tensor:
    """Ones, then zeros: a little fewer ones in each row."""
    kept = torch.tensor([max(1, length - row) for row in range(batch)])
    return (torch.arange(length)[None] < kept[:, None]).long()


def words(shapes=WORDS) -> Calls:
    return [
        {"input_ids": ids(b, n), **({"attention_mask": mask(b, n)} if masked else {})}
        for b, n, masked in shapes
    ]


def long_words() -> Calls:
    """No text of one word."""
    return words([(b, n + 1, masked) for b, n, masked in WORDS])


def pairs() -> Calls:
    """Words of a source and of a target of another length."""
    return [
        {**call, "decoder_input_ids": ids(len(call["input_ids"]), 1 + 7 * i % 23)}
        for i, call in enumerate(words())
    ]


def images(shapes=IMAGES, **more) -> Calls:
    return [{"pixel_values": torch.rand(b, 3, h, w), **more} for b, h, w in shapes]


def batches(height: int, width: int, **more) -> Calls:
    """Images of the one size that a model is made for, in twenty batches."""
    return images([(1 + 7 * i % 20, height, width) for i in range(20)], **more)


def sounds() -> Calls:
    return [{"input_values": torch.randn(b, n)} for b, n in SOUNDS]


def model(name: str, **fields) -> torch.nn.Module:
    """A model with the fields of its config."""
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    return kind(kind.config_class(**fields)).eval()


_SMALL = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 64}
_TEXT = {**_SMALL, "vocab_size": 100}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "use_cache": False}
_EXPERTS = {**_DECODER, "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
_PAIR = {
    "vocab_size": 100, "d_model": 48, "encoder_layers": 1, "decoder_layers": 1, "use_cache": False,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
_HALF_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
_SOUND = {
    **_SMALL, "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_VISION = {**_SMALL, "image_size": 32, "patch_size": 8}
_MAPS = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 12, 16, 20]}
_SCAN = {"hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 100, "use_cache": False}


def _text(name: str, base=_TEXT, calls=words, kind="encoder", has_example=False, **fields) -> Architecture:
    return Architecture(kind, lambda: model(name, **{**base, **fields}), calls, has_example)


def _decoder(name: str, base=_DECODER, **fields) -> Architecture:
    return _text(name, base, kind="decoder", **fields)


def _pair(name: str, base=_PAIR, **fields) -> Architecture:
    return _text(name, base, pairs, "encoder-decoder", **fields)


def _vision(name: str, base, calls, has_example=False, **fields) -> Architecture:
    return _text(name, base, calls, "vision", has_example, **fields)


def _scan(name: str, base=_SCAN, **fields) -> Architecture:
    return _text(name, base, kind="state space", **fields)


def _detr() -> torch.nn.Module:
    backbone = transformers.ResNetConfig(
        embedding_size=8, out_features=["stage4"], hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1]
    )
    small = {**_PAIR, "num_queries": 5}
    return model(
        "DetrModel", use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=backbone, **small
    )


def _clip_calls() -> Calls:
    return [{**call, "pixel_values": torch.rand(1 + i % 3, 3, 32, 32)} for i, call in enumerate(words())]


def _clip() -> torch.nn.Module:
    text = {**_TEXT, "max_position_embeddings": 128, "eos_token_id": 2}
    return model("CLIPModel", text_config=text, vision_config=_VISION, projection_dim=24)


def _whisper_calls() -> Calls:
    """Features of 60 frames, which the model is made for."""
    return [
        {
            "input_features": torch.randn(1 + i % 4, 16, 60),
            "decoder_input_ids": ids(1 + i % 4, 1 + 7 * i % 23),
        }
        for i in range(20)
    ]


def _spectra() -> Calls:
    return [{"input_values": torch.randn(1 + 3 * i % 20, 64, 32)} for i in range(20)]


def _speech_t5_calls() -> Calls:
    return [
        {**call, "decoder_input_values": torch.randn(len(call["input_ids"]), 1 + 5 * i % 17, 16)}
        for i, call in enumerate(words([(b, n, True) for b, n, _ in WORDS]))
    ]


MODELS: dict[str, Architecture] = {
    # Encoders.
    "bert": _text("BertModel"),
    "roberta": _text("RobertaModel"),
    "distilbert": _text("DistilBertModel", {"vocab_size": 100, "n_layers": 2, "dim": 48, "n_heads": 4, "hidden_dim": 64}),
    "albert": _text("AlbertModel", embedding_size=16),
    "electra": _text("ElectraModel", embedding_size=16, has_example=True),
    "deberta": _text("DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "mpnet": _text("MPNetModel"),
    "xlnet": _text("XLNetModel", {"vocab_size": 100, "d_model": 48, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "longformer": _text("LongformerModel", attention_window=8),
    "bigbird": _text("BigBirdModel", attention_type="block_sparse", block_size=4, num_random_blocks=1),
    "funnel": _text(
        "FunnelModel", {"vocab_size": 100}, d_model=48, n_head=4, d_head=12, d_inner=64, block_sizes=[1, 1],
        num_decoder_layers=1,
    ),
    "modernbert": _text("ModernBertModel", pad_token_id=0, local_attention=8, has_example=True),
    "fnet": _text("FNetModel"),
    "convbert": _text("ConvBertModel", embedding_size=16),
    "nystromformer": _text("NystromformerModel", num_landmarks=4, segment_means_seq_len=4),
    # Decoders.
    "gpt2": _decoder("GPT2Model", {"vocab_size": 100, "n_layer": 2, "n_embd": 48, "n_head": 4, "use_cache": False}),
    "gpt-neo": _decoder(
        "GPTNeoModel", {"vocab_size": 100, "use_cache": False}, num_layers=2, num_heads=4, hidden_size=48,
        attention_types=[[["global", "local"], 1]], window_size=8,
    ),
    "gpt-j": _decoder(
        "GPTJModel", {"vocab_size": 100, "n_layer": 2, "n_embd": 48, "n_head": 4, "use_cache": False}, rotary_dim=8
    ),
    "gpt-neox": _decoder("GPTNeoXModel"),
    "opt": _decoder("OPTModel", ffn_dim=64, word_embed_proj_dim=48),
    "bloom": _decoder("BloomModel", {"vocab_size": 100, "n_layer": 2, "hidden_size": 48, "n_head": 4, "use_cache": False}),
    "llama": _decoder("LlamaModel", has_example=True),
    "mistral": _decoder("MistralModel", sliding_window=8),
    "qwen2": _decoder("Qwen2ForCausalLM"),
    "qwen3": _decoder("Qwen3Model", head_dim=12),
    "gemma2": _decoder("Gemma2Model", head_dim=12, sliding_window=8),
    "gemma3": _decoder("Gemma3TextModel", head_dim=12, sliding_window=8),
    "phi": _decoder("PhiModel"),
    "phi3": _decoder("Phi3Model", pad_token_id=0),
    "falcon": _decoder("FalconModel"),
    "stablelm": _decoder("StableLmModel", partial_rotary_factor=0.5, rope_parameters=_HALF_ROPE),
    "olmo2": _decoder("Olmo2Model"),
    "cohere": _decoder("CohereModel"),
    "granite": _decoder("GraniteModel"),
    # Experts.
    "mixtral": _text("MixtralModel", _DECODER, kind="experts", num_local_experts=4),
    "qwen3-moe": _text("Qwen3MoeModel", _EXPERTS, kind="experts", head_dim=12),
    "olmoe": _text("OlmoeModel", _EXPERTS, kind="experts"),
    "gpt-oss": _text("GptOssModel", _DECODER, kind="experts", head_dim=12, num_local_experts=4, sliding_window=8),
    # Encoder-decoders.
    "t5": _pair(
        "T5Model", {"vocab_size": 100, "use_cache": False}, num_layers=1, d_model=48, d_kv=12, num_heads=4, d_ff=64
    ),
    "bart": _pair("BartModel"),
    "mbart": _pair("MBartModel"),
    "pegasus": _pair("PegasusModel"),
    "marian": _pair("MarianModel", pad_token_id=0, decoder_start_token_id=0),
    "led": _pair("LEDModel", attention_window=8),
    # Speech.
    "whisper": Architecture(
        "speech",
        lambda: model("WhisperModel", **_PAIR, num_mel_bins=16, max_source_positions=30, pad_token_id=0),
        _whisper_calls,
    ),
    "wav2vec2": _text("Wav2Vec2Model", _SOUND, sounds, "speech"),
    "hubert": _text("HubertModel", _SOUND, sounds, "speech"),
    "wavlm": _text("WavLMModel", _SOUND, sounds, "speech"),
    "ast": _text(
        "ASTModel", _SMALL, _spectra, "speech", max_length=64, num_mel_bins=32, patch_size=8, frequency_stride=4,
        time_stride=4,
    ),
    "speecht5": _text(
        "SpeechT5ForTextToSpeech", _PAIR, _speech_t5_calls, "speech", hidden_size=48, num_mel_bins=16,
        encoder_attention_heads=4, speech_decoder_prenet_units=16, speech_decoder_postnet_units=16,
        speaker_embedding_dim=8, reduction_factor=1,
    ),
    # Vision.
    "vit": _vision("ViTModel", _VISION, lambda: batches(32, 32)),
    "vit, any size": _vision("ViTModel", _VISION, lambda: images(interpolate_pos_encoding=True)),
    "deit": _vision("DeiTModel", _VISION, lambda: batches(32, 32)),
    "beit": _vision("BeitModel", _VISION, lambda: batches(32, 32), use_relative_position_bias=True),
    "dinov2": _vision("Dinov2Model", _VISION, images),
    "swin": _vision(
        "SwinModel", {"image_size": 64, "patch_size": 4, "window_size": 4}, images, embed_dim=16, depths=[2, 1],
        num_heads=[2, 4],
    ),
    "mobilevit": _vision(
        "MobileViTModel", {"image_size": 64, "patch_size": 2}, images, hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 12, 16, 16, 20, 24], num_attention_heads=4, num_hidden_layers=1,
    ),
    "convnext": _vision("ConvNextModel", _MAPS, images, has_example=True),
    "resnet": _vision("ResNetModel", _MAPS, images, embedding_size=8),
    "regnet": _vision("RegNetModel", _MAPS, images, embedding_size=8, groups_width=4),
    "segformer": _vision("SegformerModel", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, images),
    "detr": Architecture("vision", _detr, images),
    "clip": Architecture("vision", _clip, _clip_calls),
    # State-space models.
    "mamba": _scan("MambaModel", state_size=8),
    "falcon-mamba": _scan("FalconMambaModel", state_size=8),
    "mamba2": _scan("Mamba2Model", state_size=8, num_heads=8, head_dim=12, n_groups=2, chunk_size=8),
    "rwkv": _scan("RwkvModel", attention_hidden_size=48),
    "recurrent-gemma": _scan(
        "RecurrentGemmaModel", _DECODER, lru_width=48, attention_window_size=8, num_hidden_layers=3
    ),
    "jamba": _scan(
        "JambaModel", _DECODER, mamba_d_state=8, num_experts=2, attn_layer_period=2, attn_layer_offset=1,
        expert_layer_period=2, expert_layer_offset=1, use_mamba_kernels=False,
    ),
    "bamba": _scan(
        "BambaModel", _DECODER, mamba_d_state=8, mamba_n_heads=8, mamba_d_head=12, mamba_chunk_size=8,
        attn_layer_indices=[1],
    ),
}  # fmt: skip
