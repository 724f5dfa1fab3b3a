"""A host: several brokers on one machine, one process each, from one properties file, under one
supervisor with one page of metrics.
"""
