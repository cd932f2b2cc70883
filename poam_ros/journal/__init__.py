"""The journal, the durable record of a mission: writer, checkpoints, reader."""
