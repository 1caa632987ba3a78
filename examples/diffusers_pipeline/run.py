"""One of diffusers' pipelines, unpatched and patched, from the same noise: both images side by side in one file.

    python examples/diffusers_pipeline/run.py [--output pictures.png] [--seed 0]

The pipeline is diffusers' own ``DiTPipeline``, small and with random weights, so nothing is downloaded and the images
show texture, not things. On a machine with an NPU the patched half is computed there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DiTPipeline, DiTTransformer2DModel
from PIL import Image, ImageChops

import diffusers_patches
from patcher_core import Patcher

SIZE = 128


def small_pipeline(seed: int) -> DiTPipeline:
    """``DiTPipeline`` for images of 128 x 128 pixels, every weight drawn at random."""
    torch.manual_seed(seed)
    transformer = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        sample_size=SIZE // 8,
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        norm_num_groups=4,
    )
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.2)  # some layers start at zero, and would hide all others
    pipeline = DiTPipeline(transformer.eval(), vae.eval(), DDIMScheduler())
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def picture(pipeline: DiTPipeline, seed: int) -> Image.Image:
    """The image of class 7 that the pipeline makes of the noise of ``seed``."""
    generator = torch.Generator().manual_seed(seed)
    return pipeline([7], generator=generator, num_inference_steps=10, output_type="pil").images[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="unpatched and patched images side by side")
    parser.add_argument("--output", type=Path, default=Path("pictures.png"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    pipeline = small_pipeline(options.seed)
    unpatched = picture(pipeline, options.seed)
    patcher = Patcher().add(diffusers_patches.DiffusersNPU).apply()
    if any(result.backend.startswith("npu") for result in patcher.report.applied):
        pipeline.to("npu")
    patched = picture(pipeline, options.seed)

    both = Image.new("RGB", (2 * SIZE, SIZE))
    both.paste(unpatched, (0, 0))
    both.paste(patched, (SIZE, 0))
    both.save(options.output)
    largest = max(high for _, high in ImageChops.difference(unpatched, patched).getextrema())
    print(
        f"{options.output}: unpatched on the left, patched on the right; they differ by at most {largest} of 255"
    )


if __name__ == "__main__":
    main()
