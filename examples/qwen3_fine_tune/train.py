"""An ordinary fine-tuning script: a Qwen3, tiny and with random weights, learns a text by heart with the Trainer.

It names no device and no patch.
"""

from __future__ import annotations

import argparse

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments, set_seed

TEXT = "The quick brown fox jumps over the lazy dog, and the dog lets it pass. "
CONTEXT = 32


class Characters(torch.utils.data.Dataset):
    """Windows of the text, a token for each byte."""

    def __init__(self) -> None:
        self.tokens = torch.tensor(list((TEXT * 6).encode()))

    def __len__(self) -> int:
        return len(self.tokens) - CONTEXT

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        window = self.tokens[index : index + CONTEXT]
        return {"input_ids": window, "labels": window}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--output", default="outputs/qwen3_fine_tune")
    options = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(0)
    config = Qwen3Config(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
    )
    model = Qwen3ForCausalLM(config)
    arguments = TrainingArguments(
        output_dir=options.output,
        max_steps=options.steps,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        logging_steps=10,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Characters())
    trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']:4d}  loss {float(entry['loss']):.4f}", flush=True)
    trainer.save_model(options.output)
    start = torch.tensor([list(TEXT[:12].encode())], device=model.device)
    written = model.generate(start, attention_mask=torch.ones_like(start), max_new_tokens=24, do_sample=False)
    print("it writes:", bytes(written[0].tolist()).decode(errors="replace"))


if __name__ == "__main__":
    main()
