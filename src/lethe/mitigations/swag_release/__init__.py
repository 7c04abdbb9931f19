"""The SWAG pseudo-posterior mechanism: six steps to one released draw of a model.

`release_draw` works in a folder, where a killed run goes on; `swag_ppm` is the same in memory.
"""
