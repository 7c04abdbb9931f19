"""Ways to train that tell less about the training records, each with what it guarantees."""
