"""The games of a split as verl's data set; rows hold no prompt, which exists only after a reset."""

import json
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset


class TaskDataset(Dataset):
    """Rows of ``TaskRef``s from JSON lines; verl passes their fields to the agent loop.

    verl offers a tokenizer and other arguments, which rows without a prompt do not need.
    """

    def __init__(self, data_files: Any, **_: Any) -> None:
        files = [data_files] if isinstance(data_files, str) else list(data_files)
        lines = [line for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]
        self.tasks = [json.loads(line) for line in lines]

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> dict[str, Any]:
        task = self.tasks[index]
        return {
            "task": json.dumps(task),
            "raw_prompt": [{"role": "user", "content": task["goal"]}],  # a placeholder; the prompt comes from the game
            "index": index,
            "data_source": f"{task['env']}/{task['task']}",
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index},
            "dummy_tensor": torch.tensor([0], dtype=torch.uint8),  # verl's collate function needs at least one tensor
        }
