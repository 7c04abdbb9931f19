"""The audit of a fine-tuned language model: membership, canaries, extraction, defences."""
