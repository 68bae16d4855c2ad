"""Precision of float32 products on a GPU: that of torch, unless an option says another."""

import disc
import pytest
import torch
from disc.torch.devices.precision import process_precision, with_precision

GPU = disc.Options(device="simt:sm_90")


@pytest.fixture
def setting():
    """Torch's setting of precision, which is put back."""
    matmul = torch.backends.cuda.matmul
    before = (matmul.fp32_precision, None) if hasattr(matmul, "fp32_precision") else (None, matmul.allow_tf32)
    yield matmul
    if before[0] is None:
        matmul.allow_tf32 = before[1]
    else:
        matmul.fp32_precision = before[0]


def test_torch_says_how_exact_products_are(setting):
    if hasattr(setting, "fp32_precision"):
        for asked, found in [("tf32", "high"), ("ieee", "highest")]:
            setting.fp32_precision = asked
            assert process_precision() == found
    else:
        for asked, found in [(True, "high"), (False, "highest")]:
            setting.allow_tf32 = asked
            assert process_precision() == found


def test_an_option_comes_first_and_a_cpu_computes_in_f32(setting):
    if hasattr(setting, "fp32_precision"):
        setting.fp32_precision = "tf32"
    else:
        setting.allow_tf32 = True
    assert with_precision(GPU).matmul_precision == "high"
    chosen = disc.Options(device="simt:sm_90", matmul_precision="highest")
    assert with_precision(chosen).matmul_precision == "highest"
    for options in [disc.Options(), disc.Options(device="cpu")]:
        assert with_precision(options).matmul_precision is None


def test_a_precision_is_a_word_of_torch():
    with pytest.raises(disc.Error, match="matmul_precision"):
        disc.Options(matmul_precision="tf32")
