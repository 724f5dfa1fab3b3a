"""The site of the documents: `./run docs`. Sources stay the pages in docs/, as a code host shows
them; docs/index.md is the table of contents.
"""
