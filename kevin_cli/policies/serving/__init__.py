"""A vLLM server of our own: is everything there, does it fit, start it, wait for it, end it."""
