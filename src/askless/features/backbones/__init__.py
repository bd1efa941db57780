"""Networks that are never trained: images or texts -> feature vectors."""
