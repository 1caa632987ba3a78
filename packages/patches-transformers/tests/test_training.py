"""The Trainer and its helpers with patched models."""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("accelerate") is None:
    pytest.skip("the Trainer needs accelerate, which is not installed here", allow_module_level=True)

import spawned_dataset  # noqa: E402
import tiny_models  # noqa: E402

import transformers_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore")]


class Rows(torch.utils.data.Dataset):
    """Token sequences, with a column that no model takes."""

    def __init__(self):
        self.tokens = torch.randint(3, 60, (12, 9))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        row = self.tokens[index]
        return {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row, "source": index}


def _trained(model, rows, folder):
    """The losses of three steps, and the columns that each batch had."""
    from transformers import Trainer, TrainingArguments

    columns = []

    class Observed(Trainer):
        def training_step(self, model, inputs, *args, **kwargs):
            columns.append(sorted(inputs))
            return super().training_step(model, inputs, *args, **kwargs)

    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=3,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        seed=5,
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Observed(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], columns


def test_the_trainer_sees_the_same_columns_and_the_same_losses(tmp_path):
    rows = Rows()
    model = tiny_models.tiny_model("qwen3" if "qwen3" in tiny_models.families() else "qwen2")
    state = {name: one.clone() for name, one in model.state_dict().items()}
    expected = _trained(model, rows, tmp_path / "upstream")
    model.load_state_dict(state)
    with Patcher(backend="portable").add(*transformers_patches.ALL):
        found = _trained(model, rows, tmp_path / "patched")
    assert found[1] == expected[1] == [["attention_mask", "input_ids", "labels"]] * 3
    assert len(found[0]) == 3 and found[0] != [found[0][0]] * 3
    assert found[0] == pytest.approx(expected[0], rel=1e-4)


def test_a_patched_model_reaches_spawned_workers(tmp_path):
    model = tiny_models.tiny_model("llama")
    if tiny_models.keeps_its_rotation(model):
        pytest.skip(
            "models of this version of transformers keep their rotation, so they are pickled unpatched"
        )
    prompts = torch.randint(3, 60, (4, 6))
    expected = model(prompts).logits
    with Patcher(backend="portable").add(*transformers_patches.ALL):
        loader = torch.utils.data.DataLoader(
            spawned_dataset.Logits(model, prompts),
            batch_size=2,
            num_workers=1,
            multiprocessing_context="spawn",
        )
        found = torch.cat(list(loader))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
