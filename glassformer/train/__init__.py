"""Training: batches, step, optimizer, schedule, checkpoints (save and resume), distribution, trainer."""
