"""Side-by-side measurements. Every figure is a ratio inside one run, with the peer in the same run."""
