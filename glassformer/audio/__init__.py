"""Sound to arrays: reading files, resampling, log-mel features."""
