"""The strategies and measures of `glass compare-decoding`, and its page."""
