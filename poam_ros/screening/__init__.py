"""Which soundings are accepted."""
