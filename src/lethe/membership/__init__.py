"""Releasing a model: was this record in the training set?"""
