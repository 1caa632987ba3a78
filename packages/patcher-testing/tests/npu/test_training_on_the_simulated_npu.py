"""Whole models on device `npu` give what they give on the CPU."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("random_seed")]

# float32 on both sides, the same kernels in the same order, so only reductions of another shape may differ
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def tiny_qwen3():
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed in this environment"
    )
    config = transformers.Qwen3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
    )
    return transformers.Qwen3ForCausalLM(config)


def test_a_tiny_qwen3_runs_forward_and_backward_as_on_the_cpu():
    model = tiny_qwen3()
    on_npu = copy.deepcopy(model).npu()
    tokens = torch.randint(0, 64, (2, 9))

    expected = model(input_ids=tokens, labels=tokens)
    expected.loss.backward()
    result = on_npu(input_ids=tokens.npu(), labels=tokens.npu())
    result.loss.backward()

    assert result.logits.device.type == "npu"
    torch.testing.assert_close(result.logits.cpu(), expected.logits, **TOLERANCE)
    for (name, wanted), (_, found) in zip(model.named_parameters(), on_npu.named_parameters()):
        assert wanted.grad.abs().max() > 0, name
        torch.testing.assert_close(
            found.grad.cpu(), wanted.grad, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}"
        )


def small_conv_net():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 8, 3, groups=2),
        torch.nn.GELU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 5),
    )


def test_five_steps_of_adamw_on_a_small_conv_net_end_where_the_cpu_ends():
    model = small_conv_net()
    on_npu = copy.deepcopy(model).npu()
    start = copy.deepcopy(model.state_dict())
    images, labels = torch.randn(5, 4, 3, 9, 11), torch.randint(0, 5, (5, 4))

    for network, device in ((model, "cpu"), (on_npu, "npu")):
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
        for image, label in zip(images.to(device), labels.to(device)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(image), label).backward()
            optimizer.step()

    for name, expected in model.state_dict().items():
        assert not torch.equal(expected, start[name]), f"{name} was not trained"
        # five steps of a normalised optimizer amplify the last bit of a gradient near zero
        torch.testing.assert_close(on_npu.state_dict()[name].cpu(), expected, rtol=1e-3, atol=1e-4)
