"""Input as it was declared: types, domains, and cells that always fit them."""
