"""Training: a recipe, its data, and a loop in plain sight."""
