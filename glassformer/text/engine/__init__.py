"""The Rust engine, and the characters for which the readable algorithm takes its place."""
