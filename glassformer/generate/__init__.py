"""Text generation: settings, search strategies, logits processors, stop conditions and streaming."""
