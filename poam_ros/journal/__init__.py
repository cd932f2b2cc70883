"""The durable log of a mission: writer, checkpoints, reader."""
