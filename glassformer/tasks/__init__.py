"""One file per task, and `pipeline()`, which selects and loads one."""
