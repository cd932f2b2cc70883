"""What an update, a prediction and a message cost."""
