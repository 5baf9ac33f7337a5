"""Rows and a task -> a trained model: optimizer, schedule, step, state (save and resume), trainer."""
