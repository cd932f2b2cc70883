"""What every node shares."""
