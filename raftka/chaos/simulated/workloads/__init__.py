"""What goes on in simulated clusters beside the loaded topic, and whether it went well."""
