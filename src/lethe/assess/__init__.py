"""The one path from what a room measured to its findings, and what is asked of findings later."""
