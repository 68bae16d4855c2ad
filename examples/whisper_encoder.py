"""Encodes speech with the encoder of Whisper, in batches of any size.

Whisper reads windows of a fixed number of frames; here they are short, in the real model 3000.
"""

import disc
import torch
from transformers import WhisperConfig, WhisperModel

FRAMES, MELS = 200, 40

torch.manual_seed(0)
config = WhisperConfig(
    vocab_size=100, num_mel_bins=MELS, d_model=64, encoder_layers=2, encoder_attention_heads=4,
    encoder_ffn_dim=128, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=128,
    max_source_positions=FRAMES // 2, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip
encoder = WhisperModel(config).eval().get_encoder()


def spectrogram(seconds: float, hertz: float) -> torch.Tensor:
    """The logarithm of 40 bands of a tone's spectrum, every 10 ms at 16 kHz, padded to a window."""
    time = torch.arange(int(16000 * seconds)) / 16000
    spectrum = torch.stft(
        torch.sin(2 * torch.pi * hertz * time), 400, 160, window=torch.hann_window(400), return_complex=True
    )
    bands = torch.nn.functional.adaptive_avg_pool1d(spectrum.abs().T, MELS).T
    frames = bands.clamp(min=1e-5).log10()[:, :FRAMES]
    return torch.nn.functional.pad(frames, (0, FRAMES - frames.shape[1]), value=-5.0)


fast = disc.optimize(encoder, spectrogram(1.0, 440.0)[None])
with torch.no_grad():
    for batch in (1, 2, 5):
        sounds = [spectrogram(0.4 + 0.3 * i, 220.0 * (i + 1)) for i in range(batch)]
        features = torch.stack(sounds)
        states = fast(features).last_hidden_state
        torch.testing.assert_close(states, encoder(features).last_hidden_state, atol=1e-4, rtol=1e-4)
        print(f"{batch} sound(s): {list(features.shape)} -> {list(states.shape)}")

report = disc.report(fast).to_dict()
# A compilation, or one that an earlier run left on disk.
assert report["compiles"] + report["cache_hits"] == 1
assert report["coverage"] == 1.0
print(f"one compilation; the model itself fixes {report['fixed'] or 'nothing'}")
