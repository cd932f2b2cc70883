"""What a run leaves: folder, metrics, figures, exports, page."""
