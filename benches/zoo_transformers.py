"""Small models of transformers beside those of tests/support/architecture_models.py, with calls."""

from __future__ import annotations

from collections.abc import Callable

import architecture_models as known
import torch
from architecture_models import ids

Calls = Callable[[], list[dict]]

_SMALL = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 64}
_TEXT = {**_SMALL, "vocab_size": 100}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "use_cache": False}
_GPT = {"vocab_size": 100, "n_layer": 2, "n_embd": 48, "n_head": 4, "use_cache": False}
_EXPERTS = {"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
_PAIR = {
    "vocab_size": 100, "d_model": 48, "encoder_layers": 1, "decoder_layers": 1, "use_cache": False,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
_T5 = {
    "vocab_size": 100,
    "use_cache": False,
    "num_layers": 1,
    "d_model": 48,
    "d_kv": 12,
    "num_heads": 4,
    "d_ff": 64,
}
_VISION = {**_SMALL, "image_size": 32, "patch_size": 8}
_MAPS = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
_SOUND = {
    **_SMALL, "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip


def words() -> list[dict]:
    return [{"input_ids": ids(b, n)} for b, n in ((2, 8), (1, 33), (2, 64))]


def masked_words() -> list[dict]:
    return [{**call, "attention_mask": known.mask(*call["input_ids"].shape)} for call in words()]


def pairs() -> list[dict]:
    return [
        {**call, "decoder_input_ids": ids(len(call["input_ids"]), n)}
        for call, n in zip(words(), (3, 6, 17), strict=True)
    ]


def long_words() -> list[dict]:
    return [{"input_ids": ids(b, n)} for b, n in ((2, 16), (1, 40), (2, 64))]


def images() -> list[dict]:
    return [{"pixel_values": torch.rand(b, 3, h, w)} for b, h, w in ((1, 64, 64), (2, 67, 81), (1, 128, 128))]


def batches(size: int, *frames: int) -> Calls:
    """Images, or videos of so many frames, of the one size that a model is made for."""
    return lambda: [{"pixel_values": torch.rand(b, *frames, 3, size, size)} for b in (2, 1, 5)]


def sounds(name: str = "input_values", *channels: int) -> Calls:
    return lambda: [{name: torch.randn(b, *channels, n)} for b, n in ((1, 400), (3, 808), (2, 1001))]


def features(rows: int, words_too: bool = False) -> Calls:
    """Frames of sound, each with ``rows`` numbers."""
    lengths = ((1, 40), (3, 61), (2, 100))
    more = lambda b, n: {"decoder_input_ids": ids(b, n // 9)} if words_too else {}
    return lambda: [{"input_features": torch.randn(b, n, rows), **more(b, n)} for b, n in lengths]


def series() -> list[dict]:
    return [{"past_values": torch.randn(batch, 32, 3)} for batch in (2, 1, 9)]


def words_and_images() -> list[dict]:
    return [{**call, "pixel_values": torch.rand(1 + i, 3, 32, 32)} for i, call in enumerate(_equal_words())]


def _equal_words() -> list[dict]:
    return [{"input_ids": ids(1 + i, n)} for i, n in enumerate((8, 33, 17))]


def speech() -> list[dict]:
    return [
        {"input_values": torch.randn(b, n), "decoder_input_ids": ids(b, 5 + b)}
        for b, n in ((2, 1500), (1, 1800), (3, 2100))
    ]


#: The name of the class, the fields of its config, and the calls.
MODELS: dict[str, tuple[str, dict, Calls]] = {
    # Encoders.
    "rembert": ("RemBertModel", _TEXT | {"input_embedding_size": 16}, masked_words),
    "roformer": ("RoFormerModel", _TEXT | {"embedding_size": 48}, words),
    "mobilebert": (
        "MobileBertModel",
        _TEXT | {"embedding_size": 16, "true_hidden_size": 24, "intra_bottleneck_size": 24}, words,
    ),
    "esm": ("EsmModel", _TEXT | {"pad_token_id": 1, "mask_token_id": 4, "position_embedding_type": "rotary"}, words),
    "squeezebert": ("SqueezeBertModel", _TEXT | {"embedding_size": 48}, words),
    "deberta-v1": ("DebertaModel", _TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, masked_words),
    "canine": ("CanineModel", _TEXT, long_words),
    "yoso": ("YosoModel", _TEXT, words),
    "mra": ("MraModel", _TEXT, long_words),
    # Decoders.
    "codegen": ("CodeGenModel", _GPT | {"rotary_dim": 8}, words),
    "gpt-bigcode": ("GPTBigCodeModel", _GPT, words),
    "ctrl": ("CTRLModel", _GPT | {"dff": 64}, words),
    "mpt": ("MptModel", {"vocab_size": 100, "n_layers": 2, "d_model": 48, "n_heads": 4, "use_cache": False}, words),
    "xglm": (
        "XGLMModel",
        {"vocab_size": 100, "num_layers": 2, "d_model": 48, "attention_heads": 4, "ffn_dim": 64, "use_cache": False},
        words,
    ),
    "gemma": ("GemmaModel", _DECODER | {"head_dim": 12}, words),
    "olmo3": ("Olmo3Model", _DECODER | {"sliding_window": 8}, words),
    "glm4": ("Glm4Model", _DECODER | {"head_dim": 12, "pad_token_id": 0}, masked_words),
    "nemotron": ("NemotronModel", _DECODER, words),
    "diffllama": ("DiffLlamaModel", _DECODER, words),
    "lfm2": ("Lfm2Model", _DECODER | {"layer_types": ["conv", "full_attention"]}, words),
    "deepseek-v3": (
        "DeepseekV3Model",
        _DECODER | _EXPERTS | {
            "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "q_lora_rank": 16,
            "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 12, "first_k_dense_replace": 1,
        }, words,
    ),
    "qwen2-moe": ("Qwen2MoeModel", _DECODER | _EXPERTS | {"shared_expert_intermediate_size": 16}, words),
    "minimax": (
        "MiniMaxModel",
        _DECODER | {"num_local_experts": 4, "head_dim": 12, "layer_types": ["full_attention", "linear_attention"]}, words,
    ),
    "qwen3-next": (
        "Qwen3NextModel",
        _DECODER | _EXPERTS | {
            "head_dim": 12, "shared_expert_intermediate_size": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 12, "linear_value_head_dim": 12, "layer_types": ["linear_attention", "full_attention"],
        }, words,
    ),
    # Encoder-decoders.
    "m2m-100": ("M2M100Model", _PAIR, pairs),
    "longt5": ("LongT5Model", _T5 | {"local_radius": 4}, pairs),
    "umt5": ("UMT5Model", _T5, pairs),
    "pegasus-x": ("PegasusXModel", _PAIR | {"block_size": 4, "num_global_tokens": 2}, pairs),
    "prophetnet": (
        "ProphetNetModel",
        {
            "vocab_size": 100, "hidden_size": 48, "num_encoder_layers": 1, "num_decoder_layers": 1, "encoder_ffn_dim": 64,
            "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "decoder_ffn_dim": 64, "use_cache": False,
        }, pairs,
    ),
    # Vision.
    "dinov3": ("DINOv3ViTModel", _VISION, images),
    "yolos": ("YolosModel", _VISION | {"image_size": [64, 64], "num_detection_tokens": 5}, images),
    "pvt-v2": ("PvtV2Model", _MAPS | {"num_attention_heads": [1, 1, 2, 2]}, images),
    "mobilenet-v2": ("MobileNetV2Model", {"depth_multiplier": 0.35}, images),
    "focalnet": ("FocalNetModel", {"embed_dim": 8, "depths": [1, 1, 1, 1], "image_size": 64}, images),
    "convnextv2": ("ConvNextV2Model", _MAPS, images),
    "swinv2": (
        "Swinv2Model",
        {"image_size": 64, "patch_size": 4, "window_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4]},
        batches(64),
    ),
    "hiera": (
        "HieraModel",
        {
            "image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 1], "num_heads": [1, 2, 4], "query_stride": [2, 2],
            "num_query_pool": 2, "masked_unit_size": [8, 8],
        }, batches(64),
    ),
    "dpt": (
        "DPTForDepthEstimation",
        _VISION | {
            "image_size": 64, "patch_size": 16, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 8, "is_hybrid": False,
        }, batches(64),
    ),
    "videomae": ("VideoMAEModel", _VISION | {"num_frames": 4}, batches(32, 4)),
    # Speech, sound and series.
    "sew": ("SEWModel", _SOUND | {"squeeze_factor": 2}, sounds()),
    "wav2vec2-bert": ("Wav2Vec2BertModel", _SMALL | {"feature_projection_input_dim": 16}, features(16)),
    "speech-to-text": (
        "Speech2TextModel",
        _PAIR | {"input_feat_per_channel": 16, "conv_channels": 32, "max_source_positions": 500}, features(16, True),
    ),
    "moonshine": (
        "MoonshineModel",
        {
            "vocab_size": 100, "hidden_size": 48, "intermediate_size": 64, "encoder_num_hidden_layers": 1,
            "decoder_num_hidden_layers": 1, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
            "use_cache": False,
        }, speech,
    ),
    "encodec": (
        "EncodecModel",
        {
            "hidden_size": 16, "num_filters": 4, "upsampling_ratios": [4, 2], "codebook_size": 32, "codebook_dim": 16,
            "target_bandwidths": [24.0], "num_lstm_layers": 1,
        }, sounds("input_values", 1),
    ),
    "patchtst": (
        "PatchTSTModel",
        {
            "context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 3, "d_model": 24,
            "num_attention_heads": 4, "ffn_dim": 32, "num_hidden_layers": 2,
        }, series,
    ),
    # Words and images.
    "siglip": (
        "SiglipModel",
        {"text_config": _TEXT | {"max_position_embeddings": 128}, "vision_config": _VISION}, words_and_images,
    ),
    "vilt": ("ViltModel", _TEXT | {"image_size": 32, "patch_size": 8, "max_image_length": -1}, words_and_images),
}  # fmt: skip
