"""Topics of pages: the list with its filter, order and pages, and one topic in detail."""
