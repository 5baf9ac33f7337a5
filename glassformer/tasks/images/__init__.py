"""Tasks whose rows hold pictures."""
