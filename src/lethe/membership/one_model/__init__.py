"""What 64 shadow models would find, estimated from the outputs of one fitted model."""
