"""Whole pipelines with random weights: from noise to an image, and two of them in two threads."""

from __future__ import annotations

import threading

import pytest
import torch
from diffusers import AutoencoderKL, DDIMScheduler, DiffusionPipeline, UNet2DConditionModel
from masked_models import KEYS, TEXT_WIDTH, small_unet, with_random_weights

import diffusers_patches
from patcher_core import Patcher


class TextToImage(DiffusionPipeline):
    """The denoising loop of a text-to-image pipeline of diffusers, given the text's embeddings and their mask."""

    def __init__(self, unet: UNet2DConditionModel, vae: AutoencoderKL, scheduler: DDIMScheduler) -> None:
        super().__init__()
        self.register_modules(unet=unet, vae=vae, scheduler=scheduler)
        self.set_progress_bar_config(disable=True)

    @torch.no_grad()
    def __call__(self, text, mask, generator, steps=3):
        latents = torch.randn((text.shape[0], 4, 8, 8), generator=generator)
        self.scheduler.set_timesteps(steps)
        for time in self.scheduler.timesteps:
            noise = self.unet(latents, time, text, encoder_attention_mask=mask).sample
            latents = self.scheduler.step(noise, time, latents).prev_sample
        return (self.vae.decode(latents).sample / 2 + 0.5).clamp(0, 1)


def small_pipeline() -> TextToImage:
    vae = AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=4,
    )
    unet = with_random_weights(small_unet())
    return TextToImage(unet, vae.eval(), DDIMScheduler())


def inputs(seed, batch=2):
    generator = torch.Generator().manual_seed(seed)
    text = torch.randn(batch, KEYS, TEXT_WIDTH, generator=generator)
    mask = torch.ones(batch, KEYS)
    mask[:, 3:] = 0
    return text, mask, generator


def test_patched_and_unpatched_pipelines_give_the_same_image_for_the_same_seed(seed):
    pipeline = small_pipeline()
    wanted = pipeline(*inputs(seed))
    assert wanted.shape == (2, 3, 16, 16) and wanted.std() > 0.01
    assert (pipeline(*inputs(seed + 1)) - wanted).abs().max() > 0.01, "the image does not depend on the noise"
    with Patcher(backend="portable").add(diffusers_patches.DiffusersNPU) as patcher:
        found = pipeline(*inputs(seed))
        assert {result.group for result in patcher.report.applied} == {"diffusers_npu"}
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    assert torch.equal(pipeline(*inputs(seed)), wanted)


def test_two_threads_see_their_own_pipelines_and_nobody_elses_functions(seed):
    """One thread runs masked attention through a patched pipeline, the other looks at what it could see of it."""
    functional_attention = torch.nn.functional.scaled_dot_product_attention
    pipelines = [small_pipeline(), small_pipeline()]
    wanted = [pipeline(*inputs(seed + number)) for number, pipeline in enumerate(pipelines)]
    found, strangers, failures = [None, None], [], []
    started = threading.Barrier(2)
    finished = threading.Event()

    def look(module, arguments):
        """In each thread, in the middle of a pipeline, as its attention layers run."""
        if torch.nn.functional.scaled_dot_product_attention is not functional_attention:
            strangers.append(threading.current_thread().name)

    for pipeline in pipelines:
        for module in pipeline.unet.modules():
            if type(module).__name__ == "Attention":
                module.to_q.register_forward_pre_hook(look)
                module.to_out[0].register_forward_pre_hook(look)

    def run(number):
        try:
            started.wait()
            for _ in range(2):
                found[number] = pipelines[number](*inputs(seed + number))
        except BaseException as error:
            failures.append(error)

    def watch():
        while not finished.is_set():
            look(None, None)

    with Patcher(backend="portable").add(*diffusers_patches.ALL):
        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        watcher = threading.Thread(target=watch, name="one that runs no pipeline")
        for thread in (*threads, watcher):
            thread.start()
        for thread in threads:
            thread.join()
        finished.set()
        watcher.join()
    assert not failures and not strangers
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("group", diffusers_patches.ALL)
def test_no_patch_of_this_set_touches_torch(group):
    functional = dict(vars(torch.nn.functional))
    with Patcher(backend="portable").add(group):
        assert {
            name for name, value in vars(torch.nn.functional).items() if functional.get(name) is not value
        } == set()
