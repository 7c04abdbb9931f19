"""The SWAG pseudo-posterior mechanism: six steps to one released draw of a model."""
