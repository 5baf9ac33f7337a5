"""What `glass doctor` and `glass verify` check."""
