"""From a commit to files that can be published: `./run release VERSION`."""
