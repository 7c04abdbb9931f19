"""Training loops of other libraries as recipes: Lightning and Hugging Face."""
