"""What `glass compare-decoding` measures, and its page."""
