"""What a user wants: one file per task, and `pipeline()` that finds the right one."""
