"""Who watches a run: tensorboard, Weights & Biases and trackio, each fed with the lines of ``metrics.jsonl``."""
