"""Modules on the device ``simt``, which runs kernels for GPUs on the host and checks them."""

import disc
import pytest
import torch

transformers = pytest.importorskip("transformers")
torchvision = pytest.importorskip("torchvision")

SM_90 = disc.Options(device="simt:sm_90")


def tokens(*sizes):
    return torch.randint(0, 100, sizes)


def on_simt(module, make, sizes, options=SM_90, within=2e-6):
    """Compiles a module once and compares it with eager at each size."""
    module = module.eval()
    fast = disc.optimize(module, kwargs=make(*sizes[0]), options=options)
    for size in sizes:
        inputs = make(*size)
        with torch.no_grad():
            found, wanted = fast(**inputs), module(**inputs)
        found, wanted = (value if torch.is_tensor(value) else value[0] for value in (found, wanted))
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=within * wanted.abs().max().item())
    values = disc.report(fast).to_dict()
    assert (values["compiles"], values["coverage"], values["syncs"]) == (1, 1.0, 0)
    assert values["target"].startswith(f"{options.device} on ")


def bert():
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    return transformers.BertModel(config, add_pooling_layer=False)


@pytest.mark.parametrize("chip", ["sm_90", "gfx942", "gfx1100"])
def test_an_encoder_is_compiled_once_for_all_lengths(chip):
    on_simt(
        bert(),
        lambda b, s: {"input_ids": tokens(b, s), "attention_mask": torch.ones(b, s, dtype=torch.long)},
        [(2, 7), (1, 1), (3, 16), (1, 33)],
        disc.Options(device=f"simt:{chip}"),
    )


def test_biases_of_positions():
    config = transformers.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    on_simt(
        transformers.T5EncoderModel(config),
        lambda b, s: {"input_ids": tokens(b, s)},
        [(2, 7), (1, 3), (1, 33)],
    )


def test_convolutions_over_time():
    config = transformers.Wav2Vec2ConformerConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, conv_dim=(16, 16),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2, conv_depthwise_kernel_size=7, vocab_size=20,
    )  # fmt: skip
    on_simt(
        transformers.Wav2Vec2ConformerModel(config),
        lambda b, s: {"input_values": torch.randn(b, s)},
        [(1, 400), (2, 650)],
    )


def test_images_of_any_size():
    model = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)
    on_simt(model, lambda b, s: {"x": torch.randn(b, 3, s, s)}, [(2, 17), (1, 24)])


@pytest.mark.fallback
def test_a_decoder_with_a_growing_cache():
    config = transformers.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4, n_positions=64)
    config.eos_token_id = config.bos_token_id = None
    model = transformers.GPT2LMHeadModel(config).eval()
    fast = disc.optimize(model, options=disc.Options(device="simt:sm_90", fallback="framework"))
    start = tokens(1, 5)
    with torch.no_grad():
        found, wanted = (
            m.generate(start, max_new_tokens=8, do_sample=False, pad_token_id=0) for m in (fast, model)
        )
    assert torch.equal(found, wanted)
    values = disc.report(fast).to_dict()
    assert (values["target"].split(" on ")[0], values["syncs"]) == ("simt:sm_90", 0)


class Kept(torch.nn.Module):
    """Its number of results depends on data."""

    def forward(self, x):
        return x[x > 0] * 2


def test_sizes_of_data_are_fetched():
    module = Kept()
    fast = disc.optimize(module, (torch.randn(9),), options=SM_90)
    for x in (torch.randn(9), torch.zeros(4), torch.ones(1), torch.randn(300)):
        torch.testing.assert_close(fast(x), module(x))
    assert disc.report(fast).to_dict()["syncs"] >= 1
    assert "reads of the device's memory" in str(disc.report(fast))


class Counter(torch.nn.Module):
    """Writes to a buffer in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen += x.sum(0)
        return self.seen * 2


def test_a_written_buffer_comes_back():
    module, other = Counter(), Counter()
    fast = disc.optimize(module, (torch.ones(2, 3),), options=SM_90)
    for rows in (2, 1, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(fast(x), other(x))


def test_an_index_out_of_range_is_an_error_and_the_next_call_works():
    table = torch.nn.Embedding(10, 4)
    fast = disc.optimize(table, (torch.tensor([1, 2]),), options=SM_90)
    with pytest.raises(disc.Error, match="index 10 is out of range, expected 0 to 9"):
        fast(torch.tensor([3, 10, 11]))
    torch.testing.assert_close(fast(torch.tensor([9])), table(torch.tensor([9])))


def test_devices_are_listed_and_others_named():
    assert {"cpu", "simt:sm_90", "simt:gfx942"} <= set(disc.devices())
    with pytest.raises(disc.Error, match="`simt:sm_35`"):
        disc.optimize(torch.nn.Linear(2, 2), (torch.ones(1, 2),), options=disc.Options(device="simt:sm_35"))


def test_a_package_of_its_kernels_runs_there_alone():
    module, x = torch.nn.Linear(2, 2), torch.tensor([[1.0, -2.0]])
    file = disc.export(module, (torch.ones(1, 2),), options=SM_90)
    package = disc.load(file, device="simt:sm_90")
    torch.testing.assert_close(package(x), module(x).detach())
    with pytest.raises(disc.PackageError, match="no code of the package runs on this processor"):
        disc.load(file)(x)


class Pair(torch.nn.Module):
    def forward(self, a, b):
        return a.add_(b) + b


def test_inputs_that_share_memory_with_a_written_one_are_refused():
    ones = torch.ones(4)
    fast = disc.optimize(Pair(), (torch.ones(4), torch.ones(4)), options=SM_90)
    for pair in [(ones, ones), (ones[:3], ones[1:]), (ones, ones.view(2, 2).view(4))]:
        with pytest.raises(disc.Error, match="shares memory"):
            fast(*pair)
    assert torch.equal(ones, torch.ones(4))
    halves = torch.ones(6)
    assert torch.equal(fast(halves[:3], halves[3:]), torch.full((3,), 3.0))


def test_any_byte_but_zero_is_true():
    class Truths(torch.nn.Module):
        def forward(self, b):
            return b.sum(), ~b, b.int()

    fast = disc.optimize(Truths(), (torch.ones(4, dtype=torch.bool),), options=SM_90)
    truths = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).view(torch.bool)
    total, inverted, numbers = fast(truths)
    assert (total.item(), inverted.tolist(), numbers.tolist()) == (3, [True] + [False] * 3, [0, 1, 1, 1])


def test_what_a_device_does_not_have_is_refused():
    linear, x = torch.nn.Linear(64, 64), torch.randn(2, 64)
    for options, message in [
        (disc.Options(device="simt:sm_90", weights="int4"), "weights of 4 bits"),
        (disc.Options(device="simt:sm_90", target="simt:gfx942"), "do not run on the device"),
        (disc.Options(target="simt:sm_90"), "do not run on the device `cpu`"),
        (disc.Options(target="simt:sm_91"), "unknown target"),
    ]:
        with pytest.raises(disc.Error, match=message):
            disc.optimize(linear, (x,), options=options)


def test_a_package_for_cpus_does_not_open_for_another_device(tmp_path):
    disc.export(torch.nn.Linear(3, 3), torch.randn(2, 3), tmp_path / "m.discpkg")
    with pytest.raises(
        disc.PackageError, match="no code that runs on the device `simt:sm_90`: it has `x86-64"
    ):
        disc.load(tmp_path / "m.discpkg", device="simt:sm_90")


def test_a_report_names_the_chip():
    fast = disc.optimize(torch.nn.Linear(3, 3), (torch.randn(2, 3),), options=SM_90)
    assert "simt:sm_90 on " in str(disc.report(fast))
