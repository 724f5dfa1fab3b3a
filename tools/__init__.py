"""Tools of the maintainers that are no measurement: releases, the image."""
