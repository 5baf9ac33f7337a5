"""What a run reports: its log, its page, and several runs side by side."""
