"""The model loop: judge, learn, draw, checkpoint, repeat."""
