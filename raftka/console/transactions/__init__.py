"""Transactions as the console's page shows them."""
