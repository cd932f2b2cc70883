"""Which soundings are believed."""
