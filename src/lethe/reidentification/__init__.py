"""Whose vector is this? The attack on released representations, and what it cannot beat.

Throughout: vectors (n, d) of G people; `user_ids` (n,) the owner of each row; M >= 1 `draws` of
noise `sigma` >= 0 are averaged; Top-k names `top` = k >= 1 people; `confidence` is two-sided.
"""
