"""Models of timm and torchvision with random weights, small where they can be made small."""

from __future__ import annotations

import functools
from collections.abc import Callable

import timm
import torch
import torchvision
from torchvision.models import swin_transformer

Builder = Callable[[], torch.nn.Module]

#: Batch, height and width.
IMAGES = ((1, 64, 64), (2, 96, 80), (1, 128, 128))
BATCHES = (2, 1, 5)


def _timm(name: str, **fields) -> Builder:
    return functools.partial(timm.create_model, name, pretrained=False, **fields)


#: Networks that take images of any size.
TIMM_ANY: dict[str, Builder] = {
    name: _timm(name)
    for name in (
        "resnet18", "seresnext26t_32x4d", "resnest14d", "skresnet18", "resnetv2_18", "efficientnet_lite0",
        "mobilenetv3_small_050", "mobilenetv4_conv_small_050", "lcnet_035", "ghostnet_050", "regnety_002", "cs3darknet_focus_s",
        "ese_vovnet19b_dw", "convnext_atto", "inception_next_atto", "starnet_s1", "edgenext_xx_small", "mambaout_femto",
        "hgnetv2_b0", "efficientvit_b0", "mobilevitv2_050", "sequencer2d_s", "poolformer_s12",
    )
}  # fmt: skip

#: Networks for images of one size.
TIMM_FIXED: dict[str, tuple[int, Builder]] = {
    "vit_tiny_patch16_224": (64, _timm("vit_tiny_patch16_224", img_size=64, depth=2)),
    "cait_xxs24_224": (64, _timm("cait_xxs24_224", img_size=64, depth=2)),
    "mixer_s32_224": (64, _timm("mixer_s32_224", img_size=64)),
    "resmlp_12_224": (64, _timm("resmlp_12_224", img_size=64)),
    "swin_tiny_patch4_window7_224": (
        112,
        _timm("swin_tiny_patch4_window7_224", img_size=112, depths=(2, 1, 1, 1)),
    ),
    "tnt_s_legacy_patch16_224": (64, _timm("tnt_s_legacy_patch16_224", img_size=64, depth=2)),
    "convit_tiny": (64, _timm("convit_tiny", img_size=64, depth=2)),
    "eva02_tiny_patch14_224": (56, _timm("eva02_tiny_patch14_224", img_size=56, depth=2)),
    "vit_relpos_small_patch16_224": (64, _timm("vit_relpos_small_patch16_224", img_size=64, depth=2)),
    "xcit_nano_12_p16_224": (64, _timm("xcit_nano_12_p16_224", depth=2)),
}


def _vision(name: str, **fields) -> Builder:
    return functools.partial(torchvision.models.get_model, name, weights=None, **fields)


def _bare(name: str, **fields) -> Builder:
    """A model of detection or segmentation, without the weights of its backbone."""
    return _vision(name, weights_backbone=None, **fields)


def _convnext() -> torch.nn.Module:
    block = torchvision.models.convnext.CNBlockConfig
    return torchvision.models.ConvNeXt([block(16, 32, 1), block(32, 48, 1), block(48, None, 1)])


def _swin(version: int) -> torch.nn.Module:
    more = {}
    if version == 2:
        more = {
            "block": swin_transformer.SwinTransformerBlockV2,
            "downsample_layer": swin_transformer.PatchMergingV2,
        }
    return torchvision.models.SwinTransformer([4, 4], 16, [2, 1], [2, 4], [4, 4], **more)


TORCHVISION_ANY: dict[str, Builder] = {
    **{name: _vision(name) for name in ("squeezenet1_1", "mobilenet_v2", "shufflenet_v2_x0_5", "mnasnet0_5", "regnet_x_400mf")},
    "densenet": functools.partial(torchvision.models.DenseNet, 8, (2, 2, 2, 2), 16),
    "googlenet": _vision("googlenet", aux_logits=False, init_weights=False),
    "convnext": _convnext,
    "swin": functools.partial(_swin, 1),
    "swin_v2": functools.partial(_swin, 2),
    "lraspp_mobilenet_v3_large": _bare("lraspp_mobilenet_v3_large"),
}  # fmt: skip
TORCHVISION_FIXED: dict[str, tuple[int, Builder]] = {
    "vit": (64, functools.partial(torchvision.models.VisionTransformer, 64, 16, 2, 4, 48, 96)),
    "maxvit": (64, functools.partial(torchvision.models.MaxVit, (64, 64), 16, 4, [16, 24], [1, 1], 8, 0.0)),
}
#: Models of videos: five axes.
TORCHVISION_VIDEO: dict[str, Builder] = {"r3d_18": _vision("r3d_18")}
#: Models whose argument is a list of images.
TORCHVISION_LISTS: dict[str, Builder] = {
    "ssdlite320_mobilenet_v3_large": _bare("ssdlite320_mobilenet_v3_large", num_classes=5),
    "fasterrcnn_mobilenet_v3_large_320_fpn": _bare(
        "fasterrcnn_mobilenet_v3_large_320_fpn", num_classes=5, min_size=64, max_size=96
    ),
}


def images(argument: str) -> list[dict]:
    return [{argument: torch.rand(b, 3, h, w)} for b, h, w in IMAGES]


def batches(argument: str, size: int) -> list[dict]:
    return [{argument: torch.rand(b, 3, size, size)} for b in BATCHES]


def videos() -> list[dict]:
    return [{"x": torch.rand(b, 3, t, s, s)} for b, t, s in ((1, 4, 32), (2, 6, 40), (1, 8, 48))]


def lists() -> list[dict]:
    return [{"images": [torch.rand(3, h, w)]} for _, h, w in IMAGES]
