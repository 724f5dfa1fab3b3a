"""Keys, values and headers as people read them: their format found by itself, masks kept."""
